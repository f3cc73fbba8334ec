"""The vectors of skills and passages, in an SQLite file per set of documents."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from toolscript.embedding.base import CachedVector
from toolscript.storage.blob_store import BlobStore

log = logging.getLogger(__name__)
VERSION = "2"
"""Raised when the text that is embedded for a tool is put together differently."""
MAX_OTHER_CACHES = 16
"""How many files of other sets of documents are searched for vectors, the newest first."""
FALLBACK = "fallback"
"""The folder for vectors of a model that stands in for the one that the settings name."""
_SEPARATOR = "\n"
"""Between a document's id and its digest in a row's key; no digest contains it."""


def no_document(identifier: str) -> bool:
    """Selects no document."""
    del identifier
    return False


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

        See `VectorCache.load`. Logs a warning where another model's vectors are there.
        """
        writer = self._store.writer_version("vectors")
        if writer and not writer.startswith(_prefix(model)):
            message = "%s was written by model %r (version %s), now %r (%s); rebuilding"
            version = writer.partition(" ")[0]
            log.warning(message, self.path, model_of(writer), version, model, VERSION)
        return self._load(writer, model, wanted)

    def load_from_other_caches(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """Returns the vectors of ``model`` for ``wanted`` that other caches have.

        See `VectorCache.load_from_other_caches`.
        """
        entries: dict[str, CachedVector] = {}
        for path in newest_first(self.path, "*.sqlite"):
            other = SqliteVectorCache(path)
            writer = other._store.writer_version("vectors")
            entries = other._load(writer, model, wanted) | entries  # the newest one's count
        return entries

    def save(
        self,
        model: str,
        entries: Mapping[str, CachedVector],
        keep: Callable[[str], bool] = no_document,
    ) -> bool:
        """Makes the cache hold ``entries`` of ``model``, and others where ``keep`` says so.

        See `VectorCache.save`.
        """
        dimensions = next((entry.vector.size for entry in entries.values()), 0)
        vectors = {_key(each, entry.digest): entry.vector for each, entry in entries.items()}
        return self._store.sync(
            "vectors",
            f"{_prefix(model)}{dimensions}" if dimensions else self._writer(model),
            vectors.keys(),
            lambda key: np.ascontiguousarray(vectors[key], "<f4").tobytes(),
            lambda key: keep(key.rpartition(_SEPARATOR)[0]),
        )

    def _writer(self, model: str) -> str:
        writer = self._store.writer_version("vectors")
        return writer if writer.startswith(_prefix(model)) else _prefix(model)

    def _load(
        self, writer: str, model: str, wanted: Mapping[str, str] | None
    ) -> dict[str, CachedVector]:
        if not writer.startswith(_prefix(model)):
            return {}
        keys = None if wanted is None else [_key(*each) for each in wanted.items()]
        entries: dict[str, CachedVector] = {}
        for key, value in self._store.load("vectors", writer, keys).items():
            identifier, _, digest = key.rpartition(_SEPARATOR)
            entries[identifier] = CachedVector(digest, np.frombuffer(value, "<f4"))
        return entries


def newest_first(path: Path, pattern: str) -> list[Path]:
    """Returns the other caches' files beside ``path``, those of `FALLBACK` included."""
    folder = path.parent.parent if path.parent.name == FALLBACK else path.parent
    others = {*folder.glob(pattern), *folder.glob(f"{FALLBACK}/{pattern}")} - {path}
    return sorted(others, key=_modified_ns, reverse=True)[:MAX_OTHER_CACHES]


def _prefix(model: str) -> str:
    return f"{VERSION} {model} "


def _key(identifier: str, digest: str) -> str:
    return f"{identifier}{_SEPARATOR}{digest}"


def model_of(writer_version: str) -> str:
    """Returns the name of the model that wrote a table of vectors; empty where none did."""
    return writer_version.partition(" ")[2].rpartition(" ")[0]


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
