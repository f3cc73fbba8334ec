"""The vectors of skills and passages, in an SQLite file per set of documents."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from toolscript.embedding.base import CachedVector
from toolscript.storage.blob_store import BlobStore

log = logging.getLogger(__name__)
VERSION = "3"
"""Raised when the text that is embedded for a tool is put together differently."""
MAX_OTHER_CACHES = 16
"""How many files of other sets of documents are searched for vectors, the newest first."""
FALLBACK = "fallback"
"""The folder for vectors of a model that stands in for the one that the settings name."""
_SEPARATOR = "\n"
"""Between a document's id and its digest in a row's key; no digest contains it."""
_Wanted: TypeAlias = Mapping[str, str] | None
"""See `VectorCache.load`."""


def sqlite_cache(directory: Path, name: str, *, is_fallback: bool) -> "SqliteVectorCache":
    """Returns the cache of a file name in a directory; one apart for a model that stands in."""
    return SqliteVectorCache((directory / FALLBACK if is_fallback else directory) / name)


class SqliteVectorCache:
    """A `VectorCache` in the table ``vectors`` of a `BlobStore` file.

    Holds nothing open between calls. Caches of other sets of documents are the files
    in the same folder as ``path``, those in its folder `FALLBACK` included.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = BlobStore(path)

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """Returns the vectors of ``model`` by document id, at least those of ``wanted``.

        See `VectorCache.load`. Logs a warning if another model's vectors are there.
        """
        return _load(self.path, model, wanted, logging.WARNING)

    def load_from_other_caches(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """Returns the vectors of ``model`` for ``wanted`` that other caches have.

        See `VectorCache.load_from_other_caches`.
        """
        return load_others(_load, self.path, "*.sqlite", model, wanted)

    def save(
        self,
        model: str,
        entries: Mapping[str, CachedVector],
        keep: Callable[[str], bool] | None = None,
    ) -> bool:
        """Makes the cache hold ``entries`` of ``model``, and others if ``keep`` says so.

        See `VectorCache.save`.
        """
        dimensions = next((entry.vector.size for entry in entries.values()), 0)
        vectors = {_key(each, entry.digest): entry.vector for each, entry in entries.items()}
        return self._store.sync(
            "vectors",
            f"{_prefix(model)}{dimensions}" if dimensions else self._writer(model),
            vectors.keys(),
            lambda key: np.ascontiguousarray(vectors[key], "<f4").tobytes(),
            keep and (lambda key: keep(key.rpartition(_SEPARATOR)[0])),
        )

    def _writer(self, model: str) -> str:
        writer = self._store.writer_version("vectors")
        return writer if writer.startswith(_prefix(model)) else _prefix(model)


def load_others(
    load: Callable[[Path, str, _Wanted, int], dict[str, CachedVector]],
    path: Path,
    pattern: str,
    model: str,
    wanted: _Wanted,
) -> dict[str, CachedVector]:
    """Returns the vectors in the other caches beside ``path``; the newest one counts."""
    folder = path.parent.parent if path.parent.name == FALLBACK else path.parent
    others = {*folder.glob(pattern), *folder.glob(f"{FALLBACK}/{pattern}")} - {path}
    newest = sorted(others, key=_read_mtime_ns)[-MAX_OTHER_CACHES:]
    loaded = [load(other, model, wanted, logging.DEBUG) for other in newest]
    return {each: entry for vectors in loaded for each, entry in vectors.items()}


def _load(path: Path, model: str, wanted: _Wanted, level: int) -> dict[str, CachedVector]:
    """The vectors in a file; that another model wrote them is logged at ``level``."""
    store = BlobStore(path)
    writer = store.writer_version("vectors")
    if not writer.startswith(_prefix(model)):
        if writer:
            message = "%s was written by model %r (version %s), now %r (%s); rebuilding"
            version = writer.partition(" ")[0]
            log.log(level, message, path, model_of(writer), version, model, VERSION)
        return {}
    keys = None if wanted is None else [_key(*each) for each in wanted.items()]
    entries: dict[str, CachedVector] = {}
    for key, value in store.load("vectors", writer, keys).items():
        identifier, _, digest = key.rpartition(_SEPARATOR)
        entries[identifier] = CachedVector(digest, np.frombuffer(value, "<f4"))
    return entries


def _prefix(model: str) -> str:
    return f"{VERSION} {model} "


def _key(identifier: str, digest: str) -> str:
    return f"{identifier}{_SEPARATOR}{digest}"


def model_of(writer_version: str) -> str:
    """Returns the name of the model that wrote a table of vectors; empty if none did."""
    return writer_version.partition(" ")[2].rpartition(" ")[0]


def _read_mtime_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
