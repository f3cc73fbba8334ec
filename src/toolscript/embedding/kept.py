"""A cache in which a vector more costs a row more.

For what may be many and is edited often, such as the passages of skills; the
tools of a set of servers have the file that the specification gives.
"""

from collections.abc import Callable, Mapping

import numpy as np

from toolscript.embedding.cache import VERSION, gathered, nothing
from toolscript.embedding.sidecar import CachedVector, Entries
from toolscript.kept import Kept, Table

_MARK = "\n"
"""Between a document's id and its digest in a row's key; no digest has one."""
_FEW = 256
"""So many are looked for; for more, all are read."""


class KeptVectors:
    """The vectors of one model in a `Kept` file; the file beside others of the same kind."""

    def __init__(self, kept: Kept, table: Table = "vectors") -> None:
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
        return gathered(beside, lambda each: self._load(Kept(each), model, wanted))

    def save(self, model: str, entries: Entries, keep: Callable[[str], bool] = nothing) -> bool:
        """See `VectorCache.save`."""
        vectors = {_key(each, entry.digest): entry.vector for each, entry in entries.items()}
        return self._kept.keep(
            self._table,
            _made_by(model),
            vectors.keys(),
            lambda key: np.ascontiguousarray(vectors[key], "<f4").tobytes(),
            lambda key: keep(key.rpartition(_MARK)[0]),
        )

    def _load(
        self, kept: Kept, model: str, wanted: Mapping[str, str] | None
    ) -> dict[str, CachedVector]:
        few = wanted is not None and len(wanted) <= _FEW
        keys = [_key(*each) for each in wanted.items()] if wanted is not None and few else None
        found: dict[str, CachedVector] = {}
        for row in kept.rows(self._table, _made_by(model), keys):
            named = [key.rpartition(_MARK) for key in row.keys]
            vectors = np.frombuffer(row.data, "<f4").reshape(len(named), -1)
            for (identifier, _, digest), vector in zip(named, vectors, strict=True):
                found[identifier] = CachedVector(digest, vector)
        return found


def _key(identifier: str, digest: str) -> str:
    return f"{identifier}{_MARK}{digest}"


def _made_by(model: str) -> str:
    return f"{VERSION} {model}"
