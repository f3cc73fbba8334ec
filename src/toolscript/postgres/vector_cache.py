"""Caches vectors in PostgreSQL by model and text digest; gateways reuse each other's."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

import numpy as np

from toolscript.embedding.base import CachedVector
from toolscript.embedding.vector_cache import VERSION
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection, Work, driver

log = logging.getLogger(__name__)
T = TypeVar("T")
_BATCH = 2000
"""So many vectors are read or written in one transaction."""
_READ = """
select digest, vector from toolscript.embedding where model = $1 and digest = any($2)
"""
_USED = """
update toolscript.embedding set used_at = now()
where model = $1 and digest = any($2) and used_at < now() - interval '30 days'
"""
_WRITE = """
insert into toolscript.embedding (model, digest, vector)
select $1, digest, vector from unnest($2::text[], $3::bytea[]) as new (digest, vector)
order by digest
on conflict (model, digest) do update set vector = excluded.vector
where length(embedding.vector) <> length(excluded.vector)
"""
_DELETE_UNUSED = "delete from toolscript.embedding where used_at < now() - interval '180 days'"


class DatabaseVectorCache:
    """See `VectorCache`. All catalogues share the vectors, and a document's id does not matter.

    A vector that was not loaded for half a year is deleted. One of another length replaces the one
    of its digest: at an address there may be another model under the same name.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._model = ""
        self._stored: set[tuple[str, int]] = set()
        """Digest and length of the vectors of that model that are known to be stored."""

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """See `VectorCache.load`. Without ``wanted`` it returns none: no id is stored."""
        vectors: dict[str, CachedVector] = {}
        digests = iter(dict.fromkeys((wanted or {}).values()))
        while batch := list(islice(digests, _BATCH)):
            rows = self._try("read", lambda c, batch=batch: self._read(c, model, batch))
            if rows is None:
                break
            vectors |= rows
        self._know(model, vectors)
        found = ((each, vectors.get(digest)) for each, digest in (wanted or {}).items())
        return {each: vector for each, vector in found if vector is not None}

    def load_from_other_caches(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """See `VectorCache.load_from_other_caches`. Returns none: `load` has returned them all."""
        del model, wanted
        return {}

    def save(
        self,
        model: str,
        entries: Mapping[str, CachedVector],
        keep: Callable[[str], bool] | None = None,
    ) -> bool:
        """See `VectorCache.save`. Deletes nothing, whatever ``keep`` says."""
        del keep
        self._know(model, {})
        new = {
            entry.digest: entry
            for entry in entries.values()
            if (entry.digest, entry.vector.size) not in self._stored
        }
        waiting = iter(sorted(new.items()))
        while batch := dict(islice(waiting, _BATCH)):
            if self._try("written", lambda c, batch=batch: self._write(c, model, batch)) is None:
                return False
            self._know(model, batch)
        return True

    async def _read(
        self, connection: Connection, model: str, digests: Sequence[str]
    ) -> dict[str, CachedVector]:
        rows = await connection.fetch(_READ, _key(model), digests)
        await connection.execute(_USED, _key(model), digests)
        return {
            digest: CachedVector(digest, np.frombuffer(vector, "<f4")) for digest, vector in rows
        }

    async def _write(
        self, connection: Connection, model: str, entries: Mapping[str, CachedVector]
    ) -> bool:
        vectors = [np.ascontiguousarray(e.vector, "<f4").tobytes() for e in entries.values()]
        await connection.execute(_WRITE, _key(model), list(entries), vectors)
        await connection.execute(_DELETE_UNUSED)
        return True

    def _know(self, model: str, vectors: Mapping[str, CachedVector]) -> None:
        if model != self._model:
            self._model, self._stored = model, set()
        self._stored |= {(digest, entry.vector.size) for digest, entry in vectors.items()}

    def _try(self, what: str, work: Work[T]) -> T | None:
        """Returns what the work returns; None if it fails, which is logged."""
        try:
            return self._database.run(work)
        except (OSError, driver().PostgresError) as error:
            log.warning("the vectors in the database cannot be %s now: %s", what, error)
            return None


def _key(model: str) -> str:
    """Returns what stands for a model: its name, and how the text that it embeds is made."""
    return f"{VERSION} {model}"
