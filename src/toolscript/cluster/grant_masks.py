"""Computes which tools of the index in the database a caller may find."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

import anyio.to_thread
import numpy as np

from toolscript.cluster.database import Database
from toolscript.cluster.fallback_rows import Documents, matching
from toolscript.cluster.resident_index import IndexMemory, Snapshot
from toolscript.errors import DatabaseUnavailableError
from toolscript.retrieval.base import Mask
from toolscript.retrieval.visibility import WIDE, matcher
from toolscript.types import SEPARATOR, SearchRequest

_IDS = """
select number, id from toolscript.candidate_tool
where index_id = $1 and ($2::integer[] is null or server = any($2))
"""
_REMEMBERED = 32
"""For so many grants the tools are remembered, a byte for each tool."""


class GrantMasks:
    """Finds which tools callers may see, once for each grant and position of the index.

    Args:
        database: Where the ids of tools are.
        documents: Returns the tools that are known while the database does not answer.
    """

    def __init__(self, database: Database, documents: Documents) -> None:
        self._database = database
        self._documents = documents
        self._found: OrderedDict[object, Mask] = OrderedDict()

    async def visible(
        self,
        memory: IndexMemory,
        snapshot: Snapshot,
        request: SearchRequest,
        served: frozenset[str] | None,
    ) -> Mask:
        """Returns, by a tool's number, whether the caller of a request may find it.

        Args:
            memory: The index.
            snapshot: The index as of one position.
            request: Says who the caller is.
            served: The servers whose tools are found; None for all.
        """
        grant = request.grant
        key = memory.id, snapshot.position, served, grant.servers, grant.tools, request.hidden
        found = self._found.get(key)
        if found is not None:
            self._found.move_to_end(key)
        else:
            wide = [pattern for pattern in grant.tools if WIDE.search(pattern)]
            matching = await self._matching(memory, wide) if wide else []
            found = await anyio.to_thread.run_sync(
                partial(self._granted, memory, snapshot, request, matching, served)
            )
            self._found[key] = found
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        return found

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

    async def _matching(self, memory: IndexMemory, patterns: Sequence[str]) -> list[int]:
        """Returns the numbers of the tools whose id matches a pattern."""
        split = [pattern.partition(SEPARATOR) for pattern in patterns]
        servers: list[int] | None = None
        if all(separator and not WIDE.search(server) for server, separator, _ in split):
            named = (memory.server_numbers.get(server) for server, _, _ in split)
            servers = [number for number in named if number is not None]
        matches = matcher(patterns)
        try:
            rows = await self._database.arun(
                lambda connection: connection.fetch(_IDS, memory.id, servers)
            )
        except DatabaseUnavailableError:
            return await anyio.to_thread.run_sync(matching, memory, self._documents(), matches)
        return [number for number, identifier in rows if matches(identifier)]
