"""Tells a gateway which values other gateways have changed.

Every change adds a row to a table, in its own transaction, and notifies the gateways, which then
look. They look each second, too, since a notice may be lost, as behind a pooler. Transactions do
not end in the order of their ids: so a look begins with the oldest one that had not ended at the
look before, and leaves out the rows that were told. If another server answers than before, such as
a promoted standby, rows may be missing, and every value counts as changed.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.database import Database
from toolscript.postgres.database_connect import connect
from toolscript.postgres.driver import Connection, driver
from toolscript.postgres.schema import CATALOGUE

log = logging.getLogger(__name__)
LOOK_S = 1.0
"""How often the table is read if no notice comes."""
KEPT_S = 3600.0
"""How long rows are kept. A gateway that has read none for half of that reads all values again."""
TRIM_EVERY_S = 600.0
_CHANNEL = "toolscript"
_TRIM = "delete from toolscript.feed where written_at < now() - make_interval(secs => $1)"
_NOW = """
select pg_snapshot_xmin(pg_current_snapshot())::text, pg_postmaster_start_time()::text
"""
_READ = """
select id, store, name from toolscript.feed where catalogue = $1 and xid >= $2::text::xid8
"""
Changed: TypeAlias = Callable[[frozenset[str] | None], Awaitable[object]]
"""Takes the names of values that have changed; None means that any of them may have."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One reading of the table."""

    oldest: str
    """The id of the oldest transaction that had not ended."""
    server: str
    """When the server was started."""
    rows: frozenset[tuple[int, str, str]]
    """The changes since the look before, which may have had some of them: id, store, name."""


class ChangeFeed:
    """Reads the changes while it runs, on the database's loop.

    Args:
        database: Where the changes are.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscribers: defaultdict[str, list[Changed]] = defaultdict(list)
        self._seen: _Look | None = None
        """What has been told."""
        self._read_at = self._trimmed_at = -math.inf
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Future[object] | None = None

    @property
    def age_s(self) -> float:
        """For how many seconds nothing has been heard of changes; infinite before the start."""
        return time.monotonic() - self._read_at

    def subscribe(self, store: str, changed: Changed) -> None:
        """Has a function called, on the database's loop, for each batch of changes of a store.

        Where it raises `DatabaseUnavailableError`, the batch is told once more.
        """
        self._subscribers[store].append(changed)

    def start(self) -> None:
        """Begins to read. Changes that are committed after this are told.

        Raises `DatabaseUnavailableError`.
        """
        self._seen = self._database.run(self._look)
        self._read_at = time.monotonic()
        self._task = self._database.submit(self._follow())

    async def _follow(self) -> None:
        self._wake = asyncio.Event()
        listening = asyncio.create_task(self._listen(self._wake))
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._wake.wait()
                self._wake.clear()
                try:
                    await self._advance()
                except DatabaseUnavailableError as error:
                    log.debug("changes cannot be read now: %s", error)
                except Exception:
                    # A boundary: without this task the copies of all values would stay as they are.
                    log.exception("changes could not be read, and are read again")
        finally:
            listening.cancel()

    async def _advance(self) -> None:
        """Reads what has changed since the last time, and tells the subscribers."""
        seen, look = self._seen, await self._database.execute(self._look)
        if seen is None or seen.server != look.server or self.age_s > KEPT_S / 2:
            for store in self._subscribers:
                await self._tell(store, None)
        else:
            names: defaultdict[str, set[str]] = defaultdict(set)
            for _, store, name in look.rows - seen.rows:
                names[store].add(name)
            for store, changed in names.items():
                await self._tell(store, frozenset(changed))
        self._seen, self._read_at = look, time.monotonic()
        if self._read_at - self._trimmed_at > TRIM_EVERY_S:
            self._trimmed_at = self._read_at
            await self._database.execute(lambda c: c.execute(_TRIM, KEPT_S))

    async def _look(self, connection: Connection) -> _Look:
        oldest, server = await connection.fetchrow(_NOW)
        seen = self._seen
        since = seen.oldest if seen and seen.server == server else oldest
        rows = await connection.fetch(_READ, CATALOGUE, since)
        return _Look(oldest, server, frozenset(map(tuple, rows)))

    async def _tell(self, store: str, names: frozenset[str] | None) -> None:
        for tell in self._subscribers.get(store, ()):
            await tell(names)

    async def add(self, connection: Connection, store: str, name: str) -> None:
        """Adds a change to the transaction of a connection; the others hear of it at its end."""
        await connection.execute(
            "insert into toolscript.feed (catalogue, store, name) values ($1, $2, $3)",
            *(CATALOGUE, store, name),
        )
        await connection.execute(f"notify {_CHANNEL}")

    async def _listen(self, wake: asyncio.Event) -> None:
        """Wakes `_follow` at each notice; connects again whenever the connection is lost."""
        asyncpg = driver()
        while True:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection = await connect(self._database.url, timeout=2)
                lost = asyncio.Event()

                def note_loss(_: object, lost: asyncio.Event = lost) -> None:
                    lost.set()

                def note_change(*_: object) -> None:
                    wake.set()

                connection.add_termination_listener(note_loss)
                try:
                    await connection.add_listener(_CHANNEL, note_change)
                    await lost.wait()
                finally:
                    connection.terminate()
            await asyncio.sleep(LOOK_S)
