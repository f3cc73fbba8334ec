"""Keeps the index of a catalogue that is too large for memory in PostgreSQL, and searches it.

What a gateway's servers list is written by the owner of each, and every gateway follows the
changes of the others.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from toolscript.embedding.base import Vectors
from toolscript.errors import DatabaseUnavailableError
from toolscript.graph.learning import Learning
from toolscript.postgres.candidate_fold import fold
from toolscript.postgres.candidate_rows import STORE, by_server, server_digest
from toolscript.postgres.candidate_search import CandidateSearch
from toolscript.postgres.candidate_writer import ServerTools, replace_server
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.index_records import IndexRow
from toolscript.postgres.leases import STORE as LEASE_STORE
from toolscript.postgres.leases import Leases
from toolscript.postgres.resident_index import IndexMemory
from toolscript.retrieval.base import Plan
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.trace import IndexState
from toolscript.types import Document

log = logging.getLogger(__name__)
FOLD_SHARE, FOLD_LEAST = 0.02, 256
"""Where more tools than this share, and than this number, have changed, a fold is due."""
LISTED = 200
"""So many candidates are taken of each list."""
_RETRY_S, _FAILED_RETRY_S = 1.0, 60.0

_DIGESTS = """
select name, digest from toolscript.candidate_server where index_id = $1 and name = any($2)
"""


class DatabaseCandidates:
    """See `Candidates`. Open it before the first search.

    Args:
        database: Where the index is.
        feed: Tells of changes, by whichever gateway.
        catalogue: Whose index it is.
        stemmer: The stemmer of the engine.
        semantic: Embeds questions; None searches by words only.
        learning: What the graph has learned; None for nothing.
        leases: Say which servers this gateway writes; None writes all.
        splits: Whether questions that have several wishes are split.
        listed: How many candidates are taken of each list.
    """

    def __init__(  # noqa: PLR0913 - what bootstrap wires, each by its name
        self,
        database: Database,
        feed: ChangeFeed,
        catalogue: str,
        *,
        stemmer: Stemmer | None = None,
        semantic: SemanticSignal | None = None,
        learning: Learning | None = None,
        leases: Leases | None = None,
        splits: bool = True,
        listed: int = LISTED,
    ) -> None:
        self._database = database
        self._feed = feed
        self._catalogue = catalogue
        self._stemmer = stemmer or Stemmer()
        self._semantic = semantic
        self._leases = leases
        self._splits = splits
        self._search = CandidateSearch(
            database,
            self._stemmer,
            semantic=semantic,
            learning=learning,
            listed=listed,
            documents=lambda: self._documents,
        )
        self._memory = IndexMemory(IndexRow.none(), self._stemmer)
        self._writing = threading.Lock()
        self._documents: dict[str, list[Document]] = {}
        self._served: frozenset[str] | None = None
        """The servers whose tools are found here; None for all."""
        self._written: dict[str, list[Document]] = {}
        """By server, the tools that the database is known to have."""
        self._loading: asyncio.Task[None] | None = None
        """Loads the whole index, of which some changes are no longer kept one by one."""
        self._must_load = False
        self._later: asyncio.Future[Any] | None = None
        self._waits = False
        """Whether something is about to be written in the background."""
        feed.subscribe(STORE, self._changed)
        feed.subscribe(LEASE_STORE, self._note_owners)

    def open(self) -> None:
        """Reads what memory needs: for a million tools that takes some seconds.

        Raises `DatabaseUnavailableError`.
        """
        self._database.run(self._load_all)

    @property
    def is_built(self) -> bool:
        """Whether there is an index."""
        return bool(self._memory.id)

    @property
    def size(self) -> int:
        """See `Candidates.size`."""
        return self._memory.snapshot.size

    @property
    def is_action(self) -> Callable[[str], bool] | None:
        """See `Candidates.is_action`."""
        return self._memory.snapshot.is_action if self._splits else None

    def knows(self, word: str) -> bool:
        """See `Candidates.knows`."""
        return self._memory.snapshot.statistics.knows(word)

    @property
    def position(self) -> int:
        """The number of the latest change that searches here see."""
        return self._memory.snapshot.position

    @property
    def fold_is_due(self) -> bool:
        """Whether so much has changed that `fold` is worth its time."""
        changed = self._memory.changed
        return changed > max(FOLD_LEAST, FOLD_SHARE * self.size)

    # Changes

    def update(
        self, documents: Iterable[Document], superseded: Callable[[], bool]
    ) -> Iterator[int]:
        """See `StoredCandidates.update`.

        Writes what is new of the servers that this gateway owns. While the database does not
        answer that is tried again in the background.
        """
        self._documents = by_server(documents)
        self._served = frozenset(self._documents)
        yield from self._write(superseded)

    def _write(self, superseded: Callable[[], bool] = lambda: False) -> Iterator[int]:
        with self._writing:
            try:
                yield from self._write_changed(superseded)
            except DatabaseUnavailableError as error:
                log.warning("the index of the tools cannot be written, and is later: %s", error)
                self._write_later(_RETRY_S)

    def _write_changed(self, superseded: Callable[[], bool]) -> Iterator[int]:
        documents, model, written = self._documents, self._memory.model, self._written
        known = documents.keys() | self._memory.server_numbers.keys()
        leases = dict.fromkeys(known, "") if self._leases is None else self._leases.of_servers
        changed = sorted(
            name for name in known & leases.keys() if written.get(name) != documents.get(name, [])
        )
        stored = dict(self._database.run(partial(self._digests, changed)))
        left = sum(len(documents.get(name, ())) for name in changed)
        for name in changed:
            tools = documents.get(name, [])
            digest = server_digest(model, tools)
            if stored.get(name) != digest:
                yield left
                if superseded():
                    return
                vectors = self._vectors(model, tools)
                is_complete = len(vectors) == len(tools)
                new = ServerTools(name, tools, vectors, digest if is_complete else "")
                if not self._database.run(partial(self._replace, new, leases[name])):
                    self._write_later(_RETRY_S)  # its lease may be another's, or is taken again
                    continue
            written[name] = tools
            left -= len(tools)
        if self.fold_is_due:
            self._database.run(self._fold)

    async def _digests(self, servers: Sequence[str], connection: Connection) -> list[Any]:
        return await connection.fetch(_DIGESTS, self._memory.id, servers)

    def _vectors(self, model: str, tools: Sequence[Document]) -> dict[str, Vectors]:
        """Returns the vectors of tools by the index's ``model``; none where another one answers."""
        if self._semantic is None or not tools:
            return {}
        found, vectors = self._semantic.vectors_of(tools)
        return vectors if found == model else {}

    def _write_later(self, seconds: float) -> None:
        """Has what is not written yet written in the background. On the database's loop, or not."""
        if self._served is None or self._waits:
            return
        self._waits = True

        async def write() -> None:
            await asyncio.sleep(seconds)
            self._waits = False
            try:
                await asyncio.to_thread(deque, self._write(), 0)
            except Exception:
                # A boundary: without this task what is not written would stay so.
                log.exception("the index of the tools could not be written, and is later")
                self._write_later(_FAILED_RETRY_S)

        with suppress(DatabaseUnavailableError):  # it is closed
            self._later = self._database.submit(write())

    async def replace_server(self, tools: ServerTools) -> None:
        """Writes what a server's tools are from now on. Before `rebuild` it does nothing.

        A tool without a vector is found by its words until it is written with one. Raises
        `DatabaseUnavailableError`: it may or may not be written then.
        """
        await self._database.arun(partial(self._replace, tools, ""))
        await self._database.arun(self._memory.advance)

    async def _replace(self, tools: ServerTools, lease: str, connection: Connection) -> bool:
        """Returns False if another gateway is to write the server's tools."""
        row = await self._current(connection, "for update")
        if not row.id:  # `rebuild` writes all tools
            return True
        if not await self._may_write(connection, lease):
            return False
        if self._is_outdated(row):
            await self._load(connection)
        memory = self._memory  # another task may exchange `self._memory` during the awaits
        await memory.advance(connection)
        if await replace_server(connection, memory, row, tools):
            await self._feed.add(connection, STORE, str(row.position + 1))
        return True

    def _is_outdated(self, row: IndexRow) -> bool:
        """Whether the index in memory has to be loaded: changes alone would not make it current."""
        memory = self._memory
        is_behind = row.folded_position > memory.snapshot.position
        return row.id != memory.id or is_behind or memory.is_lost

    async def _may_write(self, connection: Connection, lease: str) -> bool:
        return not lease or self._leases is None or await self._leases.fence(connection, lease)

    async def fold(self) -> int:
        """Merges the changes into the blocks; returns how many were merged.

        Where several gateways do this at once, one of them does it.
        """
        return await self._database.arun(self._fold)

    async def _fold(self, connection: Connection) -> int:
        row = await IndexRow.current(connection, self._catalogue)
        merged = await fold(connection, row, Stemmer()) if row.id else 0
        if merged:
            await self._feed.add(connection, STORE, "folded")
        return merged

    async def _changed(self, names: frozenset[str] | None) -> None:
        """Takes what has changed. On the database's loop."""
        if names is None:  # what was written may be gone
            self._written = {}
            self._write_later(_RETRY_S)
        if not await self._database.execute(self._advance):
            self._must_load = True
            if self._loading is None or self._loading.done():
                # The load runs in its own task, so that the feed goes on to tell of revoked tokens.
                self._loading = asyncio.create_task(self._load_until_current())

    async def _current(self, connection: Connection, lock: str = "") -> IndexRow:
        """Returns the index's row, and finds out whether it is of the history that memory has."""
        memory, point = self._memory, self._memory.point
        row = await IndexRow.current(connection, self._catalogue, lock)
        await memory.find_lost(connection, row, point)
        return row

    async def _advance(self, connection: Connection) -> bool:
        """Takes the changes that are kept one by one; returns False if some are not."""
        row = await self._current(connection)
        while not self._is_outdated(row):
            memory = self._memory
            await memory.advance(connection)
            memory.forget_folded(row.folded_number)
            if memory is self._memory:  # else it was loaded in the meantime
                return True
        return False

    async def _load_until_current(self) -> None:
        while self._must_load:
            self._must_load = False
            try:
                await self._database.execute(self._load_all)
                is_current = await self._database.execute(self._advance)
            except DatabaseUnavailableError as error:
                log.debug("the index cannot be loaded now: %s", error)
            except Exception:
                # A boundary: without this task searches would stay as they are.
                log.exception("the index could not be loaded, and is loaded again")
            else:
                self._must_load |= not is_current
                continue
            self._must_load = True
            await asyncio.sleep(_RETRY_S)

    async def _load_all(self, connection: Connection) -> None:
        """Loads the index as it is at one moment.

        Without a lock, which would give the transaction an id: no gateway sees changes that come
        later than such a transaction while it goes on.
        """
        await connection.execute("set transaction isolation level repeatable read")
        await self._load(connection)

    async def _note_owners(self, _: object) -> None:
        """What the former owner of a server has not written this gateway may have to write."""
        self._write_later(_RETRY_S)

    async def _load(self, connection: Connection) -> None:
        row = await IndexRow.current(connection, self._catalogue)
        memory = IndexMemory(row, self._stemmer)
        if row.id:
            await memory.load(connection, row)
        known = self._memory
        is_older = row.id == known.id and memory.snapshot.position < known.snapshot.position
        if is_older and not known.is_lost:
            return  # what came in the meantime is in memory already
        is_another = row.id != known.id or known.is_lost
        self._memory, self._written = memory, {}
        if is_another:
            self._write_later(_RETRY_S)

    # Searches

    async def find(self, plan: Plan) -> IndexState:
        """See `Candidates.find`."""
        return await self._search.find(plan, self._memory, self._served)
