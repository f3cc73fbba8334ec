"""The vectors of tools in a JSON file per set of servers, which other programs can read."""

import hashlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np
import orjson

from toolscript.embedding.base import CachedVector
from toolscript.embedding.vector_cache import VERSION, load_others
from toolscript.storage.atomic_files import locked, write_atomically, write_failure
from toolscript.text.timestamps import utc_timestamp

log = logging.getLogger(__name__)
LOCK_TIMEOUT_S = 30.0
"""Longer than several processes need to write one after the other."""
_BODY = b',"embeddings":'


class _Row(TypedDict):
    embedding: list[float]
    hash: str
    timestamp: str


class JsonVectorCache:
    """A `VectorCache` in the file ``embeddings-<hash>.json`` of the specification.

    The keys are ``version``, ``model``, ``configHash``, ``checksum`` (SHA-256 of the
    bytes of ``embeddings``) and ``embeddings``. The file is replaced as a whole; one
    that is damaged, or of another version or model, counts as empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """See `VectorCache.load`."""
        return _load(self.path, model, wanted, logging.WARNING)

    def load_from_other_caches(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """See `VectorCache.load_from_other_caches`."""
        return load_others(_load, self.path, "embeddings-*.json", model, wanted)

    def save(
        self,
        model: str,
        entries: Mapping[str, CachedVector],
        keep: Callable[[str], bool] | None = None,
    ) -> bool:
        """See `VectorCache.save`."""
        try:
            with locked(Path(f"{self.path}.lock"), LOCK_TIMEOUT_S):
                self._write(model, entries, keep)
        except OSError as error:
            message = "embedding cache %s cannot be written: %s"
            log.warning(message, self.path, error.strerror or error, extra=write_failure(error))
            return False
        return True

    def _write(
        self,
        model: str,
        entries: Mapping[str, CachedVector],
        keep: Callable[[str], bool] | None,
    ) -> None:
        former = _rows(self.path, model, logging.DEBUG)
        size = next((entry.vector.size for entry in entries.values()), 0)
        rows = _rows_to_keep(former, size, keep) if keep else {}
        now = utc_timestamp()
        for each, entry in entries.items():
            row = former.get(each)
            if row is None or not _is_same(row, entry):
                vector: Any = np.ascontiguousarray(entry.vector, np.float32)
                row = _Row(embedding=vector, hash=entry.digest, timestamp=now)
            rows[each] = row
        if former.keys() != rows.keys() or any(former[each] is not rows[each] for each in rows):
            write_atomically(self.path, self._encode(model, rows))

    def _encode(self, model: str, rows: dict[str, _Row]) -> bytes:
        body = orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SORT_KEYS)
        head = {
            "version": VERSION,
            "model": model,
            "configHash": self.path.stem.removeprefix("embeddings-"),
            "checksum": hashlib.sha256(body).hexdigest(),
        }
        return orjson.dumps(head)[:-1] + _BODY + body + b"}"


def _rows(path: Path, model: str, level: int) -> dict[str, _Row]:
    """Returns the rows of a file, none if it cannot be used, which is logged at ``level``."""
    try:
        rows = _decode(path.read_bytes(), model)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        log.log(level, "embedding cache %s cannot be read: %s", path, error)
    except _OtherModelError as error:
        log.log(level, "embedding cache %s %s; rebuilding", path, error)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.log(level, "embedding cache %s is damaged (%s); rebuilding", path, error)
    else:
        return rows
    return {}


class _OtherModelError(Exception):
    """The file is valid, for another model or version."""


def _decode(data: bytes, model: str) -> dict[str, _Row]:
    head_bytes, _, rest = data.partition(_BODY)
    head: dict[str, str] = orjson.loads(head_bytes + b"}")
    body = rest[:-1]
    if hashlib.sha256(body).hexdigest() != head["checksum"]:
        raise ValueError("wrong checksum")
    if head["version"] != VERSION:
        raise _OtherModelError(f"has version {head['version']!r}, expected {VERSION!r}")
    if head["model"] != model:
        raise _OtherModelError(f"was written by model {head['model']!r}, now {model!r}")
    return msgspec.json.decode(body, type=dict[str, _Row])


def _load(
    path: Path, model: str, wanted: Mapping[str, str] | None, level: int
) -> dict[str, CachedVector]:
    return {
        each: CachedVector(row["hash"], np.asarray(row["embedding"], np.float32))
        for each, row in _rows(path, model, level).items()
        if wanted is None or wanted.get(each) == row["hash"]
    }


def _rows_to_keep(
    rows: Mapping[str, _Row], size: int, keep: Callable[[str], bool]
) -> dict[str, _Row]:
    """Returns the rows to keep: of this size, unless it is 0."""
    return {
        each: row for each, row in rows.items() if keep(each) and size in {0, len(row["embedding"])}
    }


def _is_same(row: _Row, entry: CachedVector) -> bool:
    return row["hash"] == entry.digest and np.array_equal(
        np.asarray(row["embedding"], np.float32), entry.vector
    )
