"""A large catalogue in PostgreSQL: who writes which of its tools, and what searches read.

The tools of a server are written by its owner; what is committed is found by every gateway.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.catalogue_index import STORE, IndexRow, server_digest
from toolscript.postgres.catalogue_reader import CatalogueReader
from toolscript.postgres.catalogue_writer import replace_server
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import READ_TIMEOUT_S, Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.leases import STORE as LEASE_STORE
from toolscript.postgres.leases import Leases
from toolscript.retrieval.base import (
    Analyze,
    AnalyzedTool,
    CandidateQuery,
    CatalogueStatistics,
    StemCounts,
    StoredTools,
)
from toolscript.types import Document

log = logging.getLogger(__name__)
_RETRY_S, _FAILED_RETRY_S = 1.0, 60.0


class LargeCatalogue:
    """See `StoredCandidates`. Open it before the first search.

    Args:
        database: Where the index is.
        feed: Tells of an index that was rebuilt, and of owners.
        catalogue: Whose index it is.
        leases: Say which servers this gateway writes; None writes all.
    """

    def __init__(
        self, database: Database, feed: ChangeFeed, catalogue: str, leases: Leases | None = None
    ) -> None:
        self._database = database
        self._catalogue = catalogue
        self._leases = leases
        self._reader = CatalogueReader(database)
        self._row: IndexRow | None = None
        """The index as it was last seen."""
        self._writing = threading.Lock()
        self._documents: dict[str, list[Document]] | None = None
        """By server, the tools that this process knows; None before they are told."""
        self._analyze: Analyze | None = None
        self._written: dict[str, list[Document]] = {}
        """By server, the tools that the database is known to have."""
        self._waits = False
        """Whether something is about to be written in the background."""
        self._later: asyncio.Future[Any] | None = None
        feed.subscribe(STORE, self._forget_written)
        feed.subscribe(LEASE_STORE, self._note_owners)

    def open(self) -> None:
        """Looks whether there is an index. Raises `DatabaseUnavailableError`."""
        self.counts(())

    @property
    def is_built(self) -> bool:
        """Whether there is an index."""
        return self._row is not None

    @property
    def size(self) -> int:
        """See `StoredCandidates.size`."""
        return 0 if self._row is None else self._row.size

    # Searches

    def counts(self, stems: Iterable[str]) -> tuple[CatalogueStatistics, dict[str, StemCounts]]:
        """See `StoredCandidates.counts`."""
        wanted = sorted(stems)

        async def read(connection: Connection) -> tuple[IndexRow | None, list[Any]]:
            row = await IndexRow.current(connection, self._catalogue)
            if row is None or not wanted:
                return row, []
            text = f"select * from {row.schema}.stem where stem = any($1)"  # noqa: S608 - ours
            return row, await connection.fetch(text, wanted)

        self._row, rows = self._database.run(read, READ_TIMEOUT_S)
        if self._row is None:
            return CatalogueStatistics.none(), {}
        return self._row.statistics, {stem: StemCounts(*counts) for stem, *counts in rows}

    def near(self, words: Iterable[str], names: Iterable[str]) -> tuple[list[str], list[str]]:
        """See `StoredCandidates.near`."""
        if self._row is None:
            return [], []
        near = partial(self._reader.near, self._row.id)
        return near("word", words), near("name", names)

    def find(self, query: CandidateQuery) -> StoredTools:
        """See `StoredCandidates.find`."""
        if not query.statistics.index:
            return StoredTools.none()
        tools, served = self._reader.find(query), self._documents
        if served is None:
            return tools
        return tools.subset([n for n, each in enumerate(tools.documents) if each.server in served])

    def existing(self, ids: Iterable[str]) -> set[str]:
        """See `StoredCandidates.existing`."""
        return self._reader.existing(self._row.id, ids) if self._row else set()

    # Changes

    def update(
        self, documents: Iterable[Document], superseded: Callable[[], bool], analyze: Analyze
    ) -> Iterator[int]:
        """See `StoredCandidates.update`.

        Writes what is new of the servers that this gateway owns. While the database does not
        answer that is tried again in the background.
        """
        self._documents, self._analyze = by_server(documents), analyze
        yield from self._write(superseded)

    def _write(self, superseded: Callable[[], bool] = lambda: False) -> Iterator[int]:
        with self._writing:
            try:
                yield from self._write_changed(superseded)
            except DatabaseUnavailableError as error:
                log.warning("the index of the tools cannot be written, and is later: %s", error)
                self._write_later(_RETRY_S)

    def _write_changed(self, superseded: Callable[[], bool]) -> Iterator[int]:
        documents, analyze, written = self._documents, self._analyze, self._written
        if documents is None or analyze is None:
            return
        row, stored = self._database.run(self._digests)
        if row is None:  # `rebuild` writes all tools
            return
        known = documents.keys() | stored.keys()
        leases = dict.fromkeys(known, "") if self._leases is None else self._leases.of_servers
        changed = sorted(
            name for name in known & leases.keys() if written.get(name) != documents.get(name, [])
        )
        left = sum(len(documents.get(name, ())) for name in changed)
        for name in changed:
            tools = documents.get(name, [])
            digest = server_digest(row.model, tools)
            if stored.get(name) != digest:
                yield left
                if superseded():
                    return
                analyzed = analyze(tools, row.statistics) if tools else []
                if not self._database.run(
                    partial(self._replace, row.id, name, analyzed, leases[name])
                ):
                    self._write_later(_RETRY_S)  # its lease may be another's, or is taken again
                    continue
            written[name] = tools
            left -= len(tools)

    def replace_server(self, server: str, tools: Sequence[AnalyzedTool]) -> bool:
        """Writes which tools a server has from now on; returns False if there is no index.

        Raises `DatabaseUnavailableError`: they may or may not be written then.
        """
        index = self._row.id if self._row else 0
        return self._database.run(partial(self._replace, index, server, tools, ""))

    async def _digests(self, connection: Connection) -> tuple[IndexRow | None, dict[str, str]]:
        """Returns the index's row, and the digests of its servers."""
        row = await IndexRow.current(connection, self._catalogue)
        if row is None:
            return None, {}
        rows = await connection.fetch(f"select name, digest from {row.schema}.server")  # noqa: S608 - ours
        return row, dict(map(tuple, rows))

    async def _replace(
        self,
        index: int,
        server: str,
        tools: Sequence[AnalyzedTool],
        lease: str,
        connection: Connection,
    ) -> bool:
        """Returns False if another gateway is to write the server's tools, or another index."""
        row = await IndexRow.current(connection, self._catalogue, "for update")
        if row is None or row.id != index:
            return False
        if lease and self._leases and not await self._leases.fence(connection, lease):
            return False
        await replace_server(connection, row, server, tools)
        return True

    def _write_later(self, seconds: float) -> None:
        """Has what is not written yet written in the background. On the database's loop, or not."""
        if self._documents is None or self._waits:
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

    async def _forget_written(self, _: object) -> None:
        """Looks again whether everything is written: the index is another, or may lack changes."""
        self._written = {}
        self._write_later(_RETRY_S)

    async def _note_owners(self, _: object) -> None:
        """What the former owner of a server has not written this gateway may have to write."""
        self._write_later(_RETRY_S)


def by_server(documents: Iterable[Document]) -> dict[str, list[Document]]:
    """Returns the tools of each server, in their order."""
    found: dict[str, list[Document]] = {}
    for document in documents:
        found.setdefault(document.server, []).append(document)
    return found
