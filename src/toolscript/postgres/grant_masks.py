"""Computes which tools of the index in the database a caller may find."""

from collections.abc import Sequence

import numpy as np

from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.database import READ_TIMEOUT_S, Database
from toolscript.postgres.fallback_rows import Documents, matching
from toolscript.postgres.lru_cache import LruCache
from toolscript.postgres.resident_index import IndexMemory, Snapshot
from toolscript.retrieval.base import Mask
from toolscript.retrieval.visibility import WIDE, matcher
from toolscript.types import SEPARATOR, SearchRequest

_IDS = """
select number, id from toolscript.candidate_tool
where index_id = $1 and ($2::integer[] is null or server = any($2))
"""
_CACHE_BYTES = 32 << 20
"""How much memory the masks may take: a byte for each tool and grant."""
_MASK_BYTES = 1000
"""About how much a mask takes besides."""
_Key = tuple[object, ...]


class GrantMasks:
    """Finds which tools callers may see, once for each grant and position of the index.

    Any thread may ask.

    Args:
        database: Where the ids of tools are.
        documents: Returns the tools that are known while the database does not answer.
    """

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database = database
        self._documents = documents
        self._cache: LruCache[_Key, Mask] = LruCache(_CACHE_BYTES, _size_of)

    def visible(
        self,
        memory: IndexMemory,
        snapshot: Snapshot,
        request: SearchRequest,
        served: frozenset[str] | None,
    ) -> tuple[Mask, str]:
        """Returns which tools the caller of a request may find, and why some may be left out.

        The mask has a place for each tool's number. Blocks for `READ_TIMEOUT_S` at most, but for a
        grant with wildcards in a server's name.

        Args:
            memory: The index.
            snapshot: The index as of one position.
            request: Says who the caller is.
            served: The servers whose tools are found; None for all.
        """
        grant = request.grant
        moment = snapshot.generation, snapshot.position
        key: _Key = (*moment, served, grant.servers, grant.tools, request.hidden)
        for mask in self._cache.get_many([key]).values():
            return mask, ""
        wide = [pattern for pattern in grant.tools if WIDE.search(pattern)]
        matching, problem = self._matching(memory, wide) if wide else ([], "")
        mask = self._granted(memory, snapshot, request, matching, served)
        if not problem:
            self._cache.add_many({key: mask})
        return mask, problem

    def _granted(
        self,
        memory: IndexMemory,
        snapshot: Snapshot,
        request: SearchRequest,
        matching: Sequence[int],
        served: frozenset[str] | None,
    ) -> Mask:
        """Returns, by a tool's number, whether a caller may see it.

        ``matching`` are the numbers of the tools that match a pattern of ids.
        """
        alive, grant = snapshot.alive, request.grant
        matches = matcher(grant.servers)
        names = memory.servers or [""]
        mask = alive & np.array([matches(name) for name in names], np.bool_)[snapshot.server]
        for identifier in grant.tools:
            mask[memory.names.by_id(identifier, alive)] = True
        known = np.array(matching, np.int64)
        known = known[known < alive.size]
        mask[known] = alive[known]
        for identifier in request.hidden:
            mask[memory.names.by_id(identifier, alive)] = False
        if served is not None:
            mask &= np.array([name in served for name in names], np.bool_)[snapshot.server]
        return mask

    def _matching(self, memory: IndexMemory, patterns: Sequence[str]) -> tuple[list[int], str]:
        """Returns the numbers of the tools whose id matches a pattern, and why some may be missing.

        While the database does not answer they are the tools that the gateway knows.
        """
        split = [pattern.partition(SEPARATOR) for pattern in patterns]
        servers: list[int] | None = None
        if all(separator and not WIDE.search(server) for server, separator, _ in split):
            named = (memory.server_numbers.get(server) for server, _, _ in split)
            servers = [number for number in named if number is not None]
        matches = matcher(patterns)
        # The ids of all tools take longer: who waits for them may give up, and the mask is cached.
        timeout_s = None if servers is None else READ_TIMEOUT_S
        try:
            rows = self._database.run(
                lambda connection: connection.fetch(_IDS, memory.id, servers), timeout_s
            )
        except DatabaseUnavailableError as error:
            return matching(memory, self._documents(), matches), str(error)
        return [number for number, identifier in rows if matches(identifier)], ""


def _size_of(mask: Mask) -> int:
    return _MASK_BYTES + mask.nbytes
