"""The embedding cache: what was computed once is not computed again.

One JSON file per set of servers, ``embeddings-<hash>.json``, in the shape the
specification gives (``version``, ``model``, ``configHash``, ``embeddings``)
plus a checksum, and beside it a sidecar derived from it that opens faster.
Another model, another version, a damaged file or a wrong checksum empties it,
with a warning; a document whose digest changed is missing from it; a document
that is gone is not written again.
"""

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import filelock
import numpy as np
import orjson
from msgspec.structs import replace

from toolscript.embedding import sidecar
from toolscript.embedding.sidecar import CachedVector, Entries
from toolscript.storage.atomic_files import make_private, write_atomically, write_failure

__all__ = ["CachedVector", "EmbeddingCache", "VectorCache"]

log = logging.getLogger(__name__)
VERSION = "2"
"""Raised when the text that is embedded for a tool is put together differently."""
LOCK_TIMEOUT_S = 30.0
"""Longer than several processes need to write one after the other."""
MAX_SIBLINGS = 16
"""Files of other sets of servers that are looked through for vectors, the latest first."""


def nothing(identifier: str) -> bool:
    """That no id is meant."""
    del identifier
    return False


class VectorCache(Protocol):
    """Where vectors are kept from one process to the next. Any thread may call."""

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """Document id → vector of ``model``: all, or at least those of these ids and digests."""
        ...

    def siblings(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """The same out of the caches of other sets of documents, the latest first."""
        ...

    def save(self, model: str, entries: Entries, keep: Callable[[str], bool] = nothing) -> bool:
        """Bring what is kept in step with ``entries``; False, and logged, where that fails.

        What another process has written meanwhile stays where ``keep`` says so
        of its id.
        """
        ...


class EmbeddingCache:
    """The cache file of one set of servers. Opened per read and write; holds nothing between."""

    def __init__(self, directory: Path, servers_hash: str) -> None:
        self.path = directory / f"embeddings-{servers_hash}.json"
        self._servers_hash = servers_hash

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """Document id → vector, as far as the file is valid for ``model``; else nothing."""
        del wanted  # all of them stand in one text
        return _load(self.path, model, _warn)

    def siblings(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """The vectors of ``model`` in the files of other sets of servers, the latest first."""
        del wanted
        others = [*self.path.parent.glob("embeddings-*.json")]
        others += self.path.parent.glob("*/embeddings-*.json")
        others += self.path.parent.parent.glob("embeddings-*.json")
        return gathered({*others} - {self.path}, lambda path: _load(path, model, _ignore))

    def save(
        self,
        model: str,
        entries: Entries,
        keep: Callable[[str], bool] = nothing,
    ) -> bool:
        """Bring the file in step with ``entries``.

        What another process has written meanwhile stays where ``keep`` says so
        of its id. A failure (full disk, busy lock) is logged and returned as
        False; the file is then as it was.
        """
        try:
            make_private(self.path.parent)
            with filelock.FileLock(f"{self.path}.lock", timeout=LOCK_TIMEOUT_S, mode=0o600):
                self._write(model, entries, keep)
        except OSError as error:
            message = "embedding cache %s cannot be written: %s"
            log.warning(message, self.path, error, extra=write_failure(error))
            return False
        return True

    def _write(self, model: str, entries: Entries, keep: Callable[[str], bool]) -> None:
        there = _load(self.path, model, _ignore)
        kept = {identifier: each for identifier, each in there.items() if keep(identifier)}
        wanted = _dated(kept | dict(entries))
        if there and _content(there) == _content(wanted):
            return
        data, head = _encode(model, self._servers_hash, wanted)
        status = write_atomically(self.path, data)
        _derive(self.path, sidecar.identity(status), head, wanted)


class _StaleError(Exception):
    """A valid file for another model or version."""


def _warn(path: Path, message: str) -> None:
    log.warning("embedding cache %s %s", path, message)


def _ignore(path: Path, message: str) -> None:
    log.debug("embedding cache %s %s", path, message)


def _load(path: Path, model: str, tell: Callable[[Path, str], None]) -> dict[str, CachedVector]:
    try:
        identity = sidecar.identity(path.stat())
        head, entries = _read(path, identity)
        _check(head, model)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        tell(path, f"cannot be read: {error}")
    except _StaleError as error:
        tell(path, f"{error}; rebuilding")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        tell(path, f"is damaged ({error}); rebuilding")
    else:
        return entries
    return {}


def _read(path: Path, identity: list[int]) -> tuple[Mapping[str, str], dict[str, CachedVector]]:
    """Head and entries: from the sidecar where it fits, else from the file, which makes it anew."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return sidecar.read(_sidecar(path), identity)
    head, entries = _decode(path.read_bytes())
    _derive(path, identity, head, entries)
    return head, entries


def _derive(path: Path, identity: list[int], head: Mapping[str, str], entries: Entries) -> None:
    """Write the sidecar; without it the next one only opens more slowly."""
    try:
        if entries:
            sidecar.write(_sidecar(path), identity, head, entries)
        else:
            _sidecar(path).unlink(missing_ok=True)
    except OSError as error:
        log.debug("no sidecar for %s: %s", path, error)


def _sidecar(path: Path) -> Path:
    return path.with_suffix(".npy")


def _check(head: Mapping[str, str], model: str) -> None:
    if head["version"] != VERSION:
        raise _StaleError(f"has version {head['version']!r}, expected {VERSION!r}")
    if head["model"] != model:
        raise _StaleError(f"was written by model {head['model']!r}, now {model!r}")


def gathered(
    paths: Iterable[Path], load: Callable[[Path], dict[str, CachedVector]]
) -> dict[str, CachedVector]:
    """What the latest of these files have; of what several have, the latest's."""
    found: dict[str, CachedVector] = {}
    for path in sorted(paths, key=_changed_ns, reverse=True)[:MAX_SIBLINGS]:
        found = load(path) | found
    return found


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _content(entries: Entries) -> dict[str, tuple[str, bytes]]:
    return {each: (entry.digest, entry.vector.tobytes()) for each, entry in entries.items()}


def _dated(entries: Entries) -> dict[str, CachedVector]:
    """Sorted by id, each with the time of its computation."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        identifier: entry if entry.timestamp else replace(entry, timestamp=now)
        for identifier, entry in sorted(entries.items())
    }


def _checksum(embeddings: bytes) -> str:
    return hashlib.sha256(embeddings).hexdigest()


def _encode(model: str, servers_hash: str, entries: Entries) -> tuple[bytes, dict[str, str]]:
    """The file's bytes, and its head."""
    embeddings = {
        identifier: {
            "embedding": np.ascontiguousarray(entry.vector),
            "hash": entry.digest,
            "timestamp": entry.timestamp,
        }
        for identifier, entry in entries.items()
    }
    body = orjson.dumps(embeddings, option=orjson.OPT_SERIALIZE_NUMPY)
    head = {
        "version": VERSION,
        "model": model,
        "configHash": servers_hash,
        "checksum": _checksum(body),
    }
    return orjson.dumps(head)[:-1] + b',"embeddings":' + body + b"}", head


def _decode(data: bytes) -> tuple[dict[str, str], dict[str, CachedVector]]:
    document: dict[str, Any] = orjson.loads(data)
    start = data.index(b',"embeddings":') + len(b',"embeddings":')
    if _checksum(data[start:-1]) != document["checksum"]:
        raise ValueError("wrong checksum")
    embeddings = document.pop("embeddings")
    return document, {
        identifier: CachedVector(
            entry["hash"],
            np.asarray(entry["embedding"], dtype=np.float32),
            str(entry.get("timestamp", "")),
        )
        for identifier, entry in embeddings.items()
    }
