"""Keeps a large catalogue's words, names, servers and components in memory, but no documents.

Some hundreds of bytes for each tool. It is read once, and every change after that comes with the
positions of the changes in the database, one after the other.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolscript.postgres.driver import Connection
from toolscript.postgres.index_records import IndexChange, IndexRow
from toolscript.postgres.name_hash_index import NameTable, Tool
from toolscript.postgres.posting_blocks import entries_of
from toolscript.postgres.word_counts import WordCounts
from toolscript.retrieval.base import Mask, Rows
from toolscript.retrieval.capability import shell_capabilities
from toolscript.retrieval.lexical.analyzer import Numbers, Stemmer, Vocabulary
from toolscript.retrieval.lexical.bm25f import WordStatistics
from toolscript.retrieval.lexical.postings import Counts
from toolscript.retrieval.lexical.spelling import Spellings
from toolscript.retrieval.subqueries import MIN_TOOLS

Folds = tuple[int, int]
"""An index, and how many of its tools are in posting blocks: a fold puts more of them there."""
Later = Mapping[int, Sequence[tuple[int, float]]]
"""By stem, the tools that are in no block yet, ascending, and their impacts."""
_CHUNK = 20_000
"""So many tools are read at once."""
_GENERATIONS = count(1)
_BITS = {name: 1 << bit for bit, name in enumerate(shell_capabilities())}
_ALL_BITS = sum(_BITS.values())
_TOOLS = """
select number, server, id, name, executes, components, purpose from toolscript.candidate_tool
where index_id = $1 and number > $2 order by number limit $3
"""
_CHANGES = """
select position, content from toolscript.candidate_change
where index_id = $1 and position > $2 order by position
"""
_DIGEST = """
select sha256(content) from toolscript.candidate_change where index_id = $1 and position = $2
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index as of one position: immutable."""

    position: int
    alive: Mask
    """By a tool's number, whether it is there: bool [numbers]."""
    server: Numbers
    """By a tool's number, its server's: int32 [numbers]."""
    size: int
    """How many tools there are."""
    statistics: WordStatistics
    openings: Counts
    """By stem, how many texts begin with it."""
    executors: Numbers
    """The numbers of the tools that run commands."""
    capabilities: Numbers
    """By a tool's number, a bit for each capability that a shell has too: int32 [numbers]."""
    generation: int
    """See `IndexMemory.generation`."""
    folds: Folds
    later: Later
    changed_at: NDArray[np.int64]
    """By a server's number, the position of the last change of its tools since the index was
    loaded; 0 if none has changed: int64 [servers]."""

    def has_capability(self, tools: Rows, name: str) -> Mask:
        """Returns which of some tools have a capability of a shell's: bool [tools]."""
        return (self.capabilities[tools] & _BITS[name]) != 0

    def is_action(self, word: str) -> bool:
        """Whether several tools' texts begin with a word."""
        stem = self.statistics.vocabulary.stems.get(self.statistics.stemmer(word), -1)
        return 0 <= stem < self.openings.size and bool(self.openings[stem] >= MIN_TOOLS)


class HistoryPoint(NamedTuple):
    """A point in the history of an index: what memory contains of the changes in the database."""

    position: int
    """The position of the last change."""
    change: bytes
    """The digest of that change; empty if it was folded when the index was loaded."""
    folded_number: int
    """Tools with smaller numbers are in posting blocks."""


class IndexMemory:
    """One index in memory; `load` and `advance` follow the database, on one thread."""

    def __init__(self, row: IndexRow, stemmer: Stemmer) -> None:
        self.generation = next(_GENERATIONS)
        """Another number each time an index is loaded, even if it is the same one."""
        self.is_lost = False
        """Whether the database no longer has the changes that this memory contains."""
        self._last_change = b""
        self.id, self.model, self.basis = row.id, row.model, row.basis
        self._folded_number = row.folded_number
        self.vocabulary = Vocabulary(stemmer)
        self.servers: list[str] = []
        self.server_numbers: dict[str, int] = {}
        self._later: dict[int, list[tuple[int, float]]] = {}
        """See `Later`. The lists grow: a snapshot leaves out what has greater numbers."""
        self._counts = WordCounts(self.vocabulary)
        self._spellings = [Spellings([])]
        self._executors: set[int] = set()
        self._capabilities = np.empty(0, np.int32)
        self._base_words = 0
        self.names = NameTable(self._knows)
        self.components = row.nearest_neighbors()
        none = np.empty(0, np.int32)
        self.snapshot = self._snapshot_at(0, none.astype(np.bool_), none, none.astype(np.int64))

    def _knows(self, word: str) -> bool:
        return self.snapshot.statistics.knows(word)

    async def load(self, connection: Connection, row: IndexRow) -> None:
        """Reads everything, in a transaction that sees one state of the database."""
        for (name,) in await connection.fetch(
            "select name from toolscript.candidate_server where index_id = $1 order by number",
            self.id,
        ):
            self._add_server(name)
        self._counts = await WordCounts.folded(connection, row, self.vocabulary)
        self._base_words = len(self.vocabulary.words)
        self._spellings = [Spellings(self.vocabulary.words[:])]
        alive, server = await self._load_tools(connection, row.next_number)
        changes = await connection.fetch(_CHANGES, self.id, row.folded_position)
        for _, content in changes:
            self._count(msgspec.msgpack.decode(content, type=IndexChange))
            self._last_change = _digest(content)
        unchanged = np.zeros(len(self.servers), np.int64)
        self._publish(row.position, alive, server, unchanged)

    async def _load_tools(self, connection: Connection, size: int) -> tuple[Mask, Numbers]:
        alive, server = np.zeros(size, np.bool_), np.zeros(size, np.int32)
        last = -1
        while rows := await connection.fetch(_TOOLS, self.id, last, _CHUNK):
            last = rows[-1][0]
            numbers, servers = (np.array([row[n] for row in rows], np.int32) for n in (0, 1))
            alive[numbers], server[numbers] = True, servers
            self._take_components([(row[0], row[5]) for row in rows if row[5]])
            self._executors.update(row[0] for row in rows if row[4])
            self._take_capabilities((row[0], row[6]) for row in rows)
            tools: list[Tool] = [
                (number, at, self.servers[at], identifier, name)
                for number, at, identifier, name, *_ in rows
            ]
            await asyncio.to_thread(self.names.take, tools)
        await asyncio.to_thread(self.names.settle)
        await asyncio.to_thread(self.components.settle)
        return alive, server

    async def advance(self, connection: Connection) -> None:
        """Takes every change since the last one."""
        rows = await connection.fetch(_CHANGES, self.id, self.snapshot.position)
        for position, content in rows:
            # While the rows were read another reading may have taken some of them.
            if position == self.snapshot.position + 1:
                self._apply(position, msgspec.msgpack.decode(content, type=IndexChange))
                self._last_change = _digest(content)
        if rows:
            await asyncio.to_thread(self.components.settle)

    @property
    def point(self) -> HistoryPoint:
        """What this memory contains of the database's changes."""
        return HistoryPoint(self.snapshot.position, self._last_change, self._folded_number)

    async def find_lost(self, connection: Connection, row: IndexRow, point: HistoryPoint) -> None:
        """Finds out whether the index of a row goes on from this one.

        A standby that was promoted may lack the newest changes, and gives their numbers to others.

        Args:
            connection: Reads the change that memory took last.
            row: The index's row.
            point: What this memory contained before the row was read.
        """
        if row.id != self.id:
            return
        stored = await connection.fetchval(_DIGEST, self.id, point.position)
        is_another = stored is not None and point.change not in {b"", stored}
        lacks = row.position < point.position or row.folded_number < point.folded_number
        self.is_lost |= lacks or is_another

    def _take_components(self, known: Sequence[tuple[int, bytes]]) -> None:
        if known:
            rows = np.frombuffer(b"".join(each for _, each in known), np.int8)
            self.components.put([number for number, _ in known], rows.reshape(len(known), -1))

    def _take_capabilities(self, known: Iterable[tuple[int, str | None]]) -> None:
        """Takes what some tools are for, in a new array: snapshots have the former one."""
        bits = {number: _bits_of(purpose) for number, purpose in known}
        grown = max(bits, default=-1) + 1 - self._capabilities.size
        self._capabilities = np.pad(self._capabilities, (0, max(0, grown)))
        self._capabilities[list(bits)] = list(bits.values())

    def _apply(self, position: int, change: IndexChange) -> None:
        known = self.snapshot
        new = max((tool.number + 1 for tool in change.added), default=0)
        size = max(known.alive.size, new)
        added = 0, size - known.alive.size
        alive, server = np.pad(known.alive, added), np.pad(known.server, added)
        for name in change.servers:
            self._add_server(name)
        self._count(change)
        for tool in change.removed:
            alive[tool.number] = False
            self._executors.discard(tool.number)
        for tool in change.added:
            alive[tool.number], server[tool.number] = True, tool.server
            name = self.servers[tool.server]
            self.names.add((tool.number, tool.server, name, tool.id, tool.name))
            if tool.executes:
                self._executors.add(tool.number)
        self._take_capabilities((tool.number, tool.purpose) for tool in change.added)
        self._take_components(change.components)
        changed_at = np.pad(known.changed_at, (0, len(self.servers) - known.changed_at.size))
        changed_at[[tool.server for tool in (*change.added, *change.removed)]] = position
        changed_at[server[[number for number, _ in change.components]]] = position
        self._publish(position, alive, server, changed_at)

    def _count(self, change: IndexChange) -> None:
        """Takes a change's words."""
        for word in change.words:
            _ = self.vocabulary[word]
        counts = self._counts
        counts.grow()
        counts.count([tool.token_ids for tool in change.removed], -1)
        added = [tool.token_ids for tool in change.added]
        counts.count(added, 1)
        averages = counts.lengths / max(1, counts.size)
        stems, places, impacts = entries_of(added, self.vocabulary, averages)
        for stem, place, impact in zip(stems, places, impacts, strict=True):
            entry = change.added[int(place)].number, abs(float(impact))
            self._later.setdefault(int(stem), []).append(entry)

    @property
    def changed(self) -> int:
        """How many tools are not in the blocks yet."""
        return self.snapshot.alive.size - self._folded_number

    def forget_folded(self, number: int) -> None:
        """Forgets the impacts of tools with smaller numbers: these are in blocks by now."""
        if number <= self._folded_number:
            return
        self._folded_number = number
        self._later = {
            stem: kept
            for stem, entries in self._later.items()
            if (kept := [entry for entry in entries if entry[0] >= number])
        }
        self.snapshot = replace(self.snapshot, folds=(self.id, number), later=self._later)

    def _add_server(self, name: str) -> None:
        self.server_numbers[name] = len(self.servers)
        self.servers.append(name)

    def server_of(self, number: int) -> str:
        """Returns the name of a tool's server."""
        return self.servers[int(self.snapshot.server[number])]

    def _publish(
        self, position: int, alive: Mask, server: Numbers, changed_at: NDArray[np.int64]
    ) -> None:
        later = self.vocabulary.words[self._base_words :]
        if later and len(later) != len(self._spellings[-1].words):
            self._spellings = [self._spellings[0], Spellings(later)]
        self.snapshot = self._snapshot_at(position, alive, server, changed_at)
        self.names.find_impersonating(self.server_of, alive)

    def _snapshot_at(
        self, position: int, alive: Mask, server: Numbers, changed_at: NDArray[np.int64]
    ) -> Snapshot:
        counts = self._counts
        statistics = WordStatistics(
            self.vocabulary,
            counts.size,
            lengths=counts.lengths.copy(),
            frequencies=counts.frequencies.copy(),
            word_counts=counts.words.copy(),
            spellings=self._spellings,
        )
        executors = np.array(sorted(self._executors), np.int32)
        openings = counts.openings.copy()
        return Snapshot(
            position,
            alive,
            server,
            int(alive.sum()),
            statistics,
            openings,
            executors,
            self._capabilities,
            self.generation,
            (self.id, self._folded_number),
            self._later,
            changed_at,
        )


def _digest(change: bytes) -> bytes:
    return hashlib.sha256(change).digest()


def _bits_of(purpose: str | None) -> int:
    if purpose is None:
        return _ALL_BITS
    return sum(_BITS.get(name, 0) for name in purpose.split("\n"))
