"""Leases each server to one gateway at a time.

A replica registers itself, and holds leases for the servers that rendezvous hashing over the live
replicas gives it. A lease ends at a time of the database's clock unless it is renewed: whoever
dies or is stopped loses it, and its epoch tells the writes of the next owner from those of the
one before.
"""

import asyncio
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolscript.errors import DatabaseUnavailableError, SchemaVersionError
from toolscript.postgres import schema
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.schema import CATALOGUE
from toolscript.types import ServerSpec
from toolscript.version import __version__

log = logging.getLogger(__name__)
TTL_S = 10.0
"""How long a lease lasts that is not renewed."""
RENEW_S = 3.0
STORE = "lease"
"""The changes in the feed that tell of new owners."""
_SPARE_CONNECTIONS = 10
"""What a database needs for itself and for its administrators."""
_DIGEST_CHARS = 16
_REGISTER = """
insert into toolscript.replica (catalogue, id, url, version, servers, expires_at)
values ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6))
on conflict (catalogue, id) do update
set url = excluded.url, servers = excluded.servers, expires_at = excluded.expires_at
returning xmax = 0
"""
_LIVE = """
select id, url, servers from toolscript.replica
where catalogue = $1 and expires_at > clock_timestamp()
"""
_FORGET = """
delete from toolscript.replica
where catalogue = $1 and expires_at < clock_timestamp() - make_interval(hours => 1)
"""
# Rows are locked in the order of their names, so that two replicas never wait for each other.
_RELEASE = """
update toolscript.lease set expires_at = '-infinity'
where (catalogue, name) in (
    select catalogue, name from toolscript.lease
    where catalogue = $1 and replica = $2 and name <> all($3::text[])
      and expires_at > clock_timestamp()
    order by name for update)
returning name
"""
_TAKE = """
insert into toolscript.lease (catalogue, name, replica, epoch, expires_at)
select $1, name, $2, 1, clock_timestamp() + make_interval(secs => $4)
from unnest($3::text[]) as name order by name
on conflict (catalogue, name) do update
set replica = excluded.replica, expires_at = excluded.expires_at,
    epoch = lease.epoch + (lease.expires_at <= clock_timestamp())::int
where lease.expires_at <= clock_timestamp() or lease.replica = excluded.replica
returning name, epoch
"""
_HELD = """
select name, replica from toolscript.lease
where catalogue = $1 and expires_at > clock_timestamp()
"""
# Those that have expired too; but not those that were released.
_OF_OTHERS = """
select name from toolscript.lease
where catalogue = $1 and replica <> $2 and expires_at > '-infinity'
"""
_FENCE = """
select 1 from toolscript.lease
where catalogue = $1 and name = $2 and replica = $3 and epoch = $4
  and expires_at > clock_timestamp()
for share
"""


class Signal:
    """An event that any thread sets, and that one coroutine waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def set(self) -> None:
        """Lets the coroutine that waits go on, or the next one that comes."""
        with self._lock:
            self._is_set = True
            if self._waiter is not None:
                loop, event = self._waiter
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Returns once the signal is set, and unsets it."""
        event = asyncio.Event()
        with self._lock:
            self._waiter = asyncio.get_running_loop(), event
            if self._is_set:
                event.set()
        try:
            await event.wait()
        finally:
            with self._lock:
                self._waiter = None
        self._is_set = False


@dataclass(frozen=True, slots=True)
class _Holding:
    """What this process knows of its leases; replaced as a whole."""

    epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of the leases that this replica holds, by their names."""
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    """The replica that holds a lease, by the lease's name."""
    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    """The address of each live replica, by its id."""
    taken_at: Mapping[str, float] = field(default_factory=dict[str, float])
    """By this process's clock, when a lease that this replica holds was taken."""
    until: float = 0.0
    """By this process's clock, how long the leases last at least."""


class Leases:
    """The leases of one replica; see `Replication`.

    Args:
        database: Where the leases are.
        feed: Tells of new owners.
        url: The address at which the other replicas reach this one.
        replica: Stands for this process; made up where it is empty.
        ttl_s: How long a lease lasts that is not renewed.
        renew_s: The pause between two renewals.
    """

    def __init__(  # noqa: PLR0913 - what bootstrap wires, each by its name
        self,
        database: Database,
        feed: ChangeFeed,
        url: str,
        *,
        replica: str = "",
        ttl_s: float = TTL_S,
        renew_s: float = RENEW_S,
    ) -> None:
        self.replica = replica or secrets.token_hex(8)
        self._database = database
        self._feed = feed
        self._url = url
        self._ttl_s = ttl_s
        self._renew_s = renew_s
        self._names: list[str] = []
        self._staying: set[str] = set()
        """Leases that stay while their holder lives: of servers that run once, and have state."""
        self._holding = _Holding()
        self._is_cut_off = False
        """Whether the database did not answer when the leases were to be renewed."""
        self._takes_over_at = 0.0
        """Until then the others keep their leases: they come back after an outage one by one."""
        self._has_counted = False
        """Whether the connections of all replicas were compared with those that there may be."""
        self.problem = ""
        """Why this replica owns nothing although the database answers; empty if it may."""
        self._signal = Signal()
        self._wake: asyncio.Event | None = None
        self._task: asyncio.Future[Any] | None = None

    def follow(self, specs: Iterable[ServerSpec]) -> None:
        """See `Replication`."""
        names = {lease_name(spec.name, spec.digest): spec.instances == "one" for spec in specs}
        self._names, self._staying = (
            sorted(names),
            {name for name, is_one in names.items() if is_one},
        )
        self._hurry()

    def owns(self, spec: ServerSpec) -> bool:
        """See `Replication`.

        While the database does not answer, a lease that was held counts on: no other replica can
        take it over without the database. Only what is written asks for more; see `fence`.
        """
        return self.holds(lease_name(spec.name, spec.digest))

    def holds(self, name: str) -> bool:
        """Whether this replica holds the lease of this name; see `owns`."""
        return name in self._epochs

    def owner_of(self, spec: ServerSpec) -> tuple[str, str] | None:
        """Returns the id and the address of a server's owner; None if no live one is known."""
        holding = self._holding
        replica = holding.owners.get(lease_name(spec.name, spec.digest), "")
        return (replica, holding.urls[replica]) if replica in holding.urls else None

    @property
    def held(self) -> int:
        """How many leases this replica holds."""
        return len(self._epochs)

    @property
    def _epochs(self) -> Mapping[str, int]:
        holding = self._holding
        lasts = time.monotonic() < holding.until or self._is_cut_off
        return holding.epochs if lasts else {}

    @property
    def replicas(self) -> int:
        """How many replicas live."""
        return len(self._holding.urls)

    async def changed(self) -> None:
        """See `Replication`."""
        await self._signal.wait()

    async def fence(self, connection: Connection, name: str) -> bool:
        """Whether the transaction of this connection may write what the holder of a lease writes.

        No other replica takes the lease before the transaction has ended.
        """
        epoch = self._holding.epochs.get(name)
        if epoch is None:
            return False
        found = await connection.fetchval(_FENCE, CATALOGUE, name, self.replica, epoch)
        return found is not None

    def start(self) -> None:
        """Registers the replica, takes its leases and renews them from now on. Returns at once."""
        self._feed.subscribe(STORE, self._look_again)
        self._task = self._database.submit(self._renew())

    def close(self) -> None:
        """Releases every lease, so that another replica takes it over at once."""
        if self._task is None:
            return
        self._task.cancel()

        async def leave(connection: Connection) -> None:
            await connection.execute(
                "delete from toolscript.replica where catalogue = $1 and id = $2",
                *(CATALOGUE, self.replica),
            )
            await connection.fetch(_RELEASE, CATALOGUE, self.replica, [])
            await self._feed.add(connection, STORE, self.replica)

        try:
            self._database.run(leave)
        except DatabaseUnavailableError as error:
            log.info("leases are not released, and expire: %s", error)
        self._holding = _Holding()

    async def _look_again(self, _: object) -> None:
        self._hurry()

    def _hurry(self) -> None:
        """Has the leases renewed at once. Any thread may call."""
        if self._wake is not None:
            self._database.call_soon(self._wake.set)

    async def _renew(self) -> None:
        self._wake = asyncio.Event()
        while True:
            try:
                await self._time_round()
            except DatabaseUnavailableError as error:
                self._is_cut_off = True
                log.debug("leases cannot be renewed now: %s", error)
            except SchemaVersionError as error:
                if not self.problem:
                    log.error("%s", error)  # noqa: TRY400 - for its owner, in one line
                self.problem = str(error)
            except Exception:
                # A boundary: without this task the replica would own nothing until it is restarted.
                log.exception("the leases could not be renewed")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._renew_s):
                    await self._wake.wait()
            self._wake.clear()

    async def _time_round(self) -> None:
        """Does a round. While the database keeps it waiting, the leases count on: see `owns`."""
        renewal = asyncio.ensure_future(self._round())
        try:
            await asyncio.wait({renewal}, timeout=self._ttl_s / 2)
            # A process that was stopped for so long has lost them.
            if not renewal.done() and time.monotonic() < self._holding.until:
                self._is_cut_off = True
            await renewal
        finally:
            renewal.cancel()

    async def _round(self) -> None:
        """Renews the leases of this replica, releases those of others and takes its own."""
        began = time.monotonic()
        before = self._holding
        await self._database.execute(schema.check)
        self.problem = ""
        is_live = await self._database.execute(self._register)
        await self._count_connections(len(is_live))
        if self._is_cut_off:
            self._takes_over_at = began + self._ttl_s
        # A lease that has just been taken is kept until its owner can have listed the server.
        kept = {name for name, taken in before.taken_at.items() if began - taken < self._ttl_s}
        kept |= self._staying & before.epochs.keys()
        mine = [n for n in self._names if n in kept or self._winner(n, is_live) == self.replica]
        if began < self._takes_over_at:
            rows = await self._database.execute(
                lambda c: c.fetch(_OF_OTHERS, CATALOGUE, self.replica)
            )
            of_others = {row["name"] for row in rows}
            mine = [name for name in mine if name not in of_others]
        released = await self._database.execute(
            lambda c: c.fetch(_RELEASE, CATALOGUE, self.replica, mine)
        )
        until = time.monotonic() + self._ttl_s
        epochs, owners = await self._database.execute(lambda c: self._take(c, mine, before))
        urls = {replica: url for replica, (url, _) in is_live.items()}
        taken_at = {
            name: before.taken_at[name] if before.epochs.get(name) == epoch else began
            for name, epoch in epochs.items()
        }
        self._holding = _Holding(epochs, owners, urls, taken_at, until)
        if self._is_cut_off:  # since this round began, perhaps
            self._takes_over_at = time.monotonic() + self._ttl_s
        # An answer that was waited for too long says nothing yet; the next one does.
        self._is_cut_off = self._is_cut_off and time.monotonic() >= until
        if released or epochs.keys() != before.epochs.keys():
            self._signal.set()
        if released:
            await self._database.execute(lambda c: self._feed.add(c, STORE, self.replica))

    async def _count_connections(self, replicas: int) -> None:
        """Warns where the replicas together may want more connections than there can be."""
        if self._has_counted:
            return
        self._has_counted = True
        each = self._database.max_connections + 1  # one for notifications
        query = "select current_setting('max_connections')::int"
        most = await self._database.execute(lambda c: c.fetchval(query))
        if replicas * each > most - _SPARE_CONNECTIONS:
            log.warning(
                "%d gateways may open %d connections, and the database has %d; "
                "raise its max_connections, or put PgBouncer before it",
                *(replicas, replicas * each, most),
            )

    async def _register(self, connection: Connection) -> dict[str, tuple[str, frozenset[str]]]:
        """Registers this replica; returns the address and the leases of each live one by its id."""
        names = self._names
        is_new = await connection.fetchval(
            _REGISTER,
            *(CATALOGUE, self.replica, self._url, __version__, names, self._ttl_s),
        )
        if is_new:
            await self._feed.add(connection, STORE, self.replica)
        await connection.execute(_FORGET, CATALOGUE)
        rows = await connection.fetch(_LIVE, CATALOGUE)
        return {row["id"]: (row["url"], frozenset(row["servers"])) for row in rows}

    async def _take(
        self, connection: Connection, names: list[str], before: _Holding
    ) -> tuple[dict[str, int], dict[str, str]]:
        rows = await connection.fetch(_TAKE, CATALOGUE, self.replica, names, self._ttl_s)
        epochs = {row["name"]: row["epoch"] for row in rows}
        if any(before.epochs.get(name) != epoch for name, epoch in epochs.items()):
            await self._feed.add(connection, STORE, self.replica)
        held = await connection.fetch(_HELD, CATALOGUE)
        return epochs, {row["name"]: row["replica"] for row in held}

    def _winner(self, name: str, live: Mapping[str, tuple[str, frozenset[str]]]) -> str:
        """Returns the replica that a lease belongs to, among those that have the server."""
        having = [replica for replica, (_, names) in live.items() if name in names]
        return rendezvous(name, having or [self.replica])


def lease_name(server: str, digest: str) -> str:
    """Returns the name of a server's lease.

    Replicas with different entries of a server, as while a change is rolled out, list it each.
    """
    return f"{server}@{digest[:_DIGEST_CHARS]}"


def rendezvous(name: str, replicas: Iterable[str]) -> str:
    """Returns the replica with the highest hash for a name.

    One replica more or less moves only the names that it gets or had.
    """
    return max(replicas, key=lambda replica: hashlib.sha256(f"{replica}\0{name}".encode()).digest())
