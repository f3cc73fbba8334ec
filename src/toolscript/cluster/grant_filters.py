"""Says which tools of an index in the database a caller may find, for memory and for SQL."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import anyio.to_thread
import numpy as np

from toolscript.cluster.database import Database
from toolscript.cluster.resident_index import IndexMemory, Snapshot
from toolscript.retrieval.base import Mask
from toolscript.retrieval.lexical.analyzer import Numbers
from toolscript.retrieval.visibility import WIDE, matcher
from toolscript.types import SEPARATOR, SearchRequest

EXACT_UP_TO = 20_000
"""Among so many granted tools the nearest are found by looking at each."""
_IDS = """
select number, id from toolscript.candidate_tool
where index_id = $1 and ($2::integer[] is null or server = any($2))
"""
_REMEMBERED = 32
"""For so many grants the tools are remembered, one to five bytes for each tool."""


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Which tools a list is taken of."""

    mask: Mask
    servers: list[int]
    """The numbers of the servers all of whose tools count."""
    numbers: Numbers
    """The numbers of the other tools that count; of all tools where these are few."""
    is_exact: bool
    """Whether each of the tools is looked at; then those that count are in ``numbers``."""
    is_everything: bool
    """Whether every tool counts; then neither ``servers`` nor ``numbers`` has any."""


class GrantFilters:
    """Finds which tools callers may see, once for each grant and position of the index.

    Args:
        database: Where the ids of tools are.
        exact_up_to: Among so many granted tools the nearest are found by looking at each.
    """

    def __init__(self, database: Database, exact_up_to: int) -> None:
        self.exact_up_to = exact_up_to
        self._database = database
        self._found: OrderedDict[object, ToolFilter] = OrderedDict()

    async def visible(
        self,
        memory: IndexMemory,
        snapshot: Snapshot,
        request: SearchRequest,
        served: frozenset[str] | None,
    ) -> ToolFilter:
        """Returns the tools that the caller of a request may find.

        Args:
            memory: The index.
            snapshot: The index as of one position.
            request: Says who the caller is.
            served: The servers whose tools are found; None for all.

        Raises:
            DatabaseUnavailableError: The database does not answer.
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
    ) -> ToolFilter:
        """Returns the tools that a caller may see; ``matching`` match a pattern of ids."""
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
        return tool_filter(snapshot, mask, self.exact_up_to)

    async def _matching(self, memory: IndexMemory, patterns: Sequence[str]) -> list[int]:
        """Returns the numbers of the tools whose id matches a pattern."""
        split = [pattern.partition(SEPARATOR) for pattern in patterns]
        servers: list[int] | None = None
        if all(separator and not WIDE.search(server) for server, separator, _ in split):
            named = (memory.server_numbers.get(server) for server, _, _ in split)
            servers = [number for number in named if number is not None]
        rows = await self._database.arun(
            lambda connection: connection.fetch(_IDS, memory.id, servers)
        )
        matches = matcher(patterns)
        return [number for number, identifier in rows if matches(identifier)]


def tool_filter(snapshot: Snapshot, mask: Mask, exact_up_to: int) -> ToolFilter:
    """Returns a mask as SQL states it."""
    granted = np.flatnonzero(mask).astype(np.int32)
    is_exact = granted.size <= exact_up_to
    is_everything = granted.size == snapshot.size
    if is_everything or is_exact:
        numbers = granted[:0] if is_everything else granted
        return ToolFilter(mask, [], numbers, is_exact=is_exact, is_everything=is_everything)
    count = int(snapshot.server.max()) + 1
    all_of = np.bincount(snapshot.server[snapshot.alive], minlength=count)
    seen_of = np.bincount(snapshot.server[granted], minlength=count)
    full = (all_of == seen_of) & (all_of > 0)
    rest = granted[~full[snapshot.server[granted]]]
    return ToolFilter(
        mask, np.flatnonzero(full).tolist(), rest, is_exact=False, is_everything=False
    )
