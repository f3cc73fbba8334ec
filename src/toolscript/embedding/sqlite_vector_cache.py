"""A cache in which a vector more costs little more.

For what may be many and is edited often, such as the passages of skills; the
tools of a set of servers have the file that the specification gives.
"""

from collections.abc import Callable, Mapping

import numpy as np

from toolscript.embedding.sidecar import CachedVector, Entries
from toolscript.embedding.vector_cache import VERSION, gathered, nothing
from toolscript.storage.blob_store import BlobStore, Table

_MARK = "\n"
"""Between a document's id and its digest in a row's key; no digest has one."""
_CURRENT = f"{VERSION} "
_FEW = 256
"""So many are looked for; for more, all are read."""


class SqliteVectorCache:
    """The vectors of one model in a `BlobStore` file; the file beside others of the same kind."""

    def __init__(self, kept: BlobStore, table: Table = "vectors") -> None:
        self._kept = kept
        self._table: Table = table

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """See `VectorCache.load`."""
        return self._load(self._kept, model, wanted)

    def siblings(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """See `VectorCache.siblings`."""
        path = self._kept.path
        beside = {*path.parent.glob(f"*{path.suffix}")} - {path}
        return gathered(beside, lambda each: self._load(BlobStore(each), model, wanted))

    def save(self, model: str, entries: Entries, keep: Callable[[str], bool] = nothing) -> bool:
        """See `VectorCache.save`. The vectors have one length, which is part of who made them."""
        sizes = {entry.vector.size for entry in entries.values()}
        made_by = _made_by(model, sizes.pop()) if sizes else self._stated(self._kept, model)
        vectors = {_key(each, entry.digest): entry.vector for each, entry in entries.items()}
        return self._kept.keep(
            self._table,
            made_by or _made_by(model, 0),
            vectors.keys(),
            lambda key: np.ascontiguousarray(vectors[key], "<f4").tobytes(),
            lambda key: keep(key.rpartition(_MARK)[0]),
        )

    def _stated(self, kept: BlobStore, model: str) -> str:
        """By whom what is there was made, where that was this model; else empty."""
        made_by = kept.made_by(self._table)
        return made_by if model_of(made_by) == model and made_by.startswith(_CURRENT) else ""

    def _load(
        self, kept: BlobStore, model: str, wanted: Mapping[str, str] | None
    ) -> dict[str, CachedVector]:
        few = wanted if wanted is not None and len(wanted) <= _FEW else None
        keys = None if few is None else [_key(*each) for each in few.items()]
        made_by = self._stated(kept, model)
        found: dict[str, CachedVector] = {}
        for row in kept.rows(self._table, made_by, keys) if made_by else ():
            named = [key.rpartition(_MARK) for key in row.keys]
            vectors = np.frombuffer(row.data, "<f4").reshape(len(named), -1)
            for (identifier, _, digest), vector in zip(named, vectors, strict=True):
                found[identifier] = CachedVector(digest, vector)
        return found


def _key(identifier: str, digest: str) -> str:
    return f"{identifier}{_MARK}{digest}"


def _made_by(model: str, size: int) -> str:
    return f"{_CURRENT}{model} {size}"


def model_of(made_by: str) -> str:
    """The name of the model that vectors were made by; empty where nobody made any."""
    return made_by.partition(" ")[2].rpartition(" ")[0]
