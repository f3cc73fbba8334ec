"""Tells a gateway which values other gateways have changed.

Every change adds a row to a table, in its own transaction. A gateway reads the rows that its last
snapshot of the database does not show: an id alone would skip a row whose transaction ends late. A
notification only makes it look sooner than it would by itself. Where rows may be missing, as after
the server was replaced by its standby, every value counts as changed.
"""

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.database import Database
from toolscript.postgres.database_connect import connect
from toolscript.postgres.driver import Connection, driver

log = logging.getLogger(__name__)
POLL_S = 0.5
"""How often the table is read if no notification comes."""
RING_EVERY_S = 0.05
"""At most so often the other gateways are notified: a notification in each transaction would
halve how many there can be."""
KEPT_S = 3600.0
"""How long rows are kept. A gateway that has read none for half of that reads all values again."""
TRIM_EVERY_S = 600.0
_CHANNEL = "toolscript"
MOST_CHANGES = 10_000
"""Where more values have changed since the last look, every value counts as changed."""
_TRIM = "delete from toolscript.feed where written_at < now() - make_interval(secs => $1)"
_SNAPSHOT = """
select pg_current_snapshot()::text, pg_postmaster_start_time()::text
"""
# What this shows beyond the snapshot that was taken before it is told twice, and not left out.
_READ = """
select distinct store, name from toolscript.feed
where catalogue = $1 and xid >= pg_snapshot_xmin($2::text::pg_snapshot)
  and not pg_visible_in_snapshot(xid, $2::text::pg_snapshot) limit $3
"""
Changed: TypeAlias = Callable[[frozenset[str] | None], Awaitable[object]]
"""Takes the names of values that have changed; None means that any of them may have."""


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The transactions that had ended at one moment."""

    text: str
    """As PostgreSQL writes it: ``xmin:xmax:xip``."""
    server: str
    """When the server was started."""

    @classmethod
    async def taken(cls, connection: Connection) -> "_Snapshot":
        text, server = await connection.fetchrow(_SNAPSHOT)
        return cls(text, server)

    @property
    def xmin(self) -> int:
        """The oldest transaction that had not ended."""
        return int(self.text.partition(":")[0])

    def precedes(self, later: "_Snapshot") -> bool:
        """Whether both are of one server.

        Another one, such as a standby that was promoted, or one that was restored, may lack the
        newest transactions, and gives their ids to others.
        """
        return self.server == later.server and self.xmin <= later.xmin


class ChangeFeed:
    """Reads the changes of one catalogue while it runs, on the database's loop.

    Args:
        database: Where the changes are.
        catalogue: Whose changes are read.
        direct_url: An address without a pooler before it, for notifications; None for none.
        most: With so many changes at once every value counts as changed.
    """

    def __init__(
        self,
        database: Database,
        catalogue: str,
        direct_url: str | None = None,
        most: int = MOST_CHANGES,
    ) -> None:
        self._most = most
        self._database = database
        self._catalogue = catalogue
        self._direct_url = direct_url
        self._subscribers: defaultdict[str, list[Changed]] = defaultdict(list)
        self._seen: _Snapshot | None = None
        """What has been told."""
        self._read_at = self._trimmed_at = -math.inf
        self._wake: asyncio.Event | None = None
        self._rung = False
        self._ringing: set[asyncio.Task[None]] = set()
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
        self._seen = self._database.run(_Snapshot.taken)
        self._read_at = time.monotonic()
        self._task = self._database.submit(self._follow())

    async def _follow(self) -> None:
        self._wake = asyncio.Event()
        listening = (
            asyncio.create_task(self._listen(self._direct_url)) if self._direct_url else None
        )
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
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
            if listening is not None:
                listening.cancel()

    async def _advance(self) -> None:
        """Reads what has changed since the last time, and tells the subscribers."""
        snapshot, changes = await self._database.execute(self._look)
        if changes is None:
            for store in self._subscribers:
                await self._tell(store, None)
        else:
            names: defaultdict[str, set[str]] = defaultdict(set)
            for store, name in changes:
                names[store].add(name)
            for store, changed in names.items():
                await self._tell(store, frozenset(changed))
        self._seen, self._read_at = snapshot, time.monotonic()
        if self._read_at - self._trimmed_at > TRIM_EVERY_S:
            self._trimmed_at = self._read_at
            await self._database.execute(lambda c: c.execute(_TRIM, KEPT_S))

    async def _look(self, connection: Connection) -> tuple[_Snapshot, list[Any] | None]:
        """Returns what has ended by now, and the changes in it; None if some may be gone.

        Rows are gone after a while.
        """
        snapshot, seen = await _Snapshot.taken(connection), self._seen
        if seen is None or not seen.precedes(snapshot) or self.age_s > KEPT_S / 2:
            return snapshot, None
        rows = await connection.fetch(_READ, self._catalogue, seen.text, self._most)
        return snapshot, rows if len(rows) < self._most else None

    async def _tell(self, store: str, names: frozenset[str] | None) -> None:
        for tell in self._subscribers.get(store, ()):
            await tell(names)

    async def add(self, connection: Connection, store: str, name: str) -> None:
        """Adds a change to the transaction of a connection; the others hear of it soon after."""
        await connection.execute(
            "insert into toolscript.feed (catalogue, store, name) values ($1, $2, $3)",
            *(self._catalogue, store, name),
        )
        if self._task is None:  # a command, which may end at once
            await connection.execute(f"notify {_CHANNEL}")
        else:
            self._ring_soon()

    def _ring_soon(self) -> None:
        """Notifies the other gateways in a moment, once for all changes until then."""
        if not self._rung:
            self._rung = True
            ringing = asyncio.create_task(self._ring())
            self._ringing.add(ringing)
            ringing.add_done_callback(self._ringing.discard)

    async def _ring(self) -> None:
        # A task from the beginning, and no timer that starts one: who closes the database cancels
        # the tasks that there are.
        await asyncio.sleep(RING_EVERY_S)
        self._rung = False
        with suppress(DatabaseUnavailableError):  # the others look by themselves
            await self._database.execute(lambda c: c.execute(f"notify {_CHANNEL}"))

    async def _listen(self, url: str) -> None:
        """Wakes `_follow` at each notification; connects again whenever the connection is lost."""
        asyncpg = driver()
        while True:
            try:
                connection = await connect(url, timeout=2)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(POLL_S)
                continue
            lost = asyncio.Event()

            def on_loss(_: object, lost: asyncio.Event = lost) -> None:
                lost.set()

            connection.add_termination_listener(on_loss)
            try:
                await connection.add_listener(_CHANNEL, self._woken)
                await lost.wait()
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(POLL_S)
            finally:
                connection.terminate()

    def _woken(self, *_: object) -> None:
        """Has `_follow` read at once. Called by the driver, with the notification."""
        if self._wake is not None:
            self._wake.set()
