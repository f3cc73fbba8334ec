"""The embedding cache: what was computed once is not computed again.

One JSON file per set of servers, ``embeddings-<hash>.json``, in the shape the
specification gives (``version``, ``model``, ``configHash``, ``embeddings``)
plus a checksum. Another model, another version, a damaged file or a wrong
checksum empties it, with a warning; a document whose digest changed is missing
from it; a document that is gone is not written again.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import orjson

from toolscript.embedding.base import Vectors
from toolscript.files import make_private, write_atomically

log = logging.getLogger(__name__)
VERSION = "1"
"""Raised when the text that is embedded for a tool is put together differently."""
LOCK_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class CachedVector:
    """One document's vector, float32 [dim], and the digest of the content it was computed from."""

    digest: str
    vector: Vectors


class EmbeddingCache:
    """The cache file of one set of servers. Opened per read and write; holds nothing between."""

    def __init__(self, directory: Path, servers_hash: str) -> None:
        self.path = directory / f"embeddings-{servers_hash}.json"
        self._servers_hash = servers_hash

    def load(self, model: str) -> dict[str, CachedVector]:
        """Document id → vector, as far as the file is valid for ``model``; else nothing."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("embedding cache %s cannot be read: %s", self.path, error)
            return {}
        try:
            return _decode(data, model)
        except _StaleError as error:
            log.warning("embedding cache %s: %s; rebuilding", self.path, error)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("embedding cache %s is damaged (%s); rebuilding", self.path, error)
        return {}

    def save(self, model: str, entries: Mapping[str, CachedVector]) -> bool:
        """Replace the file; a failure (full disk, busy lock) is logged and returned as False."""
        data = _encode(model, self._servers_hash, entries)
        try:
            make_private(self.path.parent)
            with filelock.FileLock(f"{self.path}.lock", timeout=LOCK_TIMEOUT_S):
                write_atomically(self.path, data)
        except (OSError, filelock.Timeout) as error:
            log.warning("embedding cache %s cannot be written: %s", self.path, error)
            return False
        return True


class _StaleError(Exception):
    """A valid file for another model or version."""


def _checksum(embeddings: bytes) -> str:
    return hashlib.sha256(embeddings).hexdigest()


def _encode(model: str, servers_hash: str, entries: Mapping[str, CachedVector]) -> bytes:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    embeddings = {
        identifier: {"embedding": entry.vector, "hash": entry.digest, "timestamp": now}
        for identifier, entry in sorted(entries.items())
    }
    body = orjson.dumps(embeddings, option=orjson.OPT_SERIALIZE_NUMPY)
    head: dict[str, Any] = {
        "version": VERSION,
        "model": model,
        "configHash": servers_hash,
        "checksum": _checksum(body),
    }
    return orjson.dumps(head)[:-1] + b',"embeddings":' + body + b"}"


def _decode(data: bytes, model: str) -> dict[str, CachedVector]:
    document = orjson.loads(data)
    if document["version"] != VERSION:
        raise _StaleError(f"version {document['version']!r}, expected {VERSION!r}")
    if document["model"] != model:
        raise _StaleError(f"written by model {document['model']!r}, now {model!r}")
    start = data.index(b',"embeddings":') + len(b',"embeddings":')
    if _checksum(data[start:-1]) != document["checksum"]:
        raise ValueError("wrong checksum")
    return {
        identifier: CachedVector(entry["hash"], np.asarray(entry["embedding"], dtype=np.float32))
        for identifier, entry in document["embeddings"].items()
    }
