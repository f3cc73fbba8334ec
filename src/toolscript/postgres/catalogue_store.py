"""Stores the catalogue's server entries in PostgreSQL: the `Replication` of gateways.

There is one row per server, which only the holder of the server's lease writes. The change feed
tells the other replicas of it in the same transaction.
"""

import asyncio
import logging
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from toolscript.errors import DatabaseUnavailableError
from toolscript.gateway.base import CatalogueNews, CatalogueStore
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.snapshot import SETTLED
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.leases import Leases, Signal, lease_name
from toolscript.postgres.schema import CATALOGUE
from toolscript.types import ServerSpec

log = logging.getLogger(__name__)
STORE, _PINS_STORE, _STALE_STORE = "catalogue", "pins", "stale"
_READ = """
select name, content from toolscript.record
where catalogue = $1 and store = $2 and content is not null
  and ($3::text[] is null or name = any($3))
"""
_WRITE = """
insert into toolscript.record (catalogue, store, name, content) values ($1, $2, $3, $4)
on conflict (catalogue, store, name) do update
set content = excluded.content, version = record.version + 1, changed_at = clock_timestamp()
"""


class DatabaseCatalogue(CatalogueStore):
    """The catalogue that replicas share; see `Replication`.

    Args:
        database: Where the entries are.
        feed: Tells of changes.
        leases: Say which servers this replica owns.
    """

    def __init__(self, database: Database, feed: ChangeFeed, leases: Leases) -> None:
        self._database = database
        self._feed = feed
        self._leases = leases
        self._stored: dict[str, bytes] = {}
        """What is in the database, as far as it is known here, by server."""
        self._written: dict[str, ServerEntry] = {}
        """The entries whose content that is, by server: they are not encoded again."""
        self._guard = threading.Lock()
        self._news = CatalogueNews()
        self._signal = Signal()
        self._problem = ""
        self._reports: set[asyncio.Future[Any]] = set()
        feed.subscribe(STORE, self._read_again)
        feed.subscribe(_PINS_STORE, self._note_reviewed)
        feed.subscribe(_STALE_STORE, self._note_stale)

    def load(self, specs: Iterable[ServerSpec]) -> Catalogue:
        """See `CatalogueStore`. Raises `DatabaseUnavailableError`."""
        digests = {spec.name: spec.digest for spec in specs if not spec.disabled}
        rows = self._database.run(lambda c: self._fetch(c, sorted(digests)))
        entries = self._decode(rows)
        return Catalogue.of(e for e in entries if digests[e.name] == e.digest)

    def save(self, catalogue: Catalogue) -> None:
        """See `CatalogueStore`. Stores what has changed of the servers that this replica owns."""
        try:
            for entry in catalogue.servers.values():
                name = lease_name(entry.name, entry.digest)
                is_stored = self._written.get(entry.name) is entry
                if entry.state in SETTLED and not is_stored and self._leases.holds(name):
                    self._write(entry, name)
        except DatabaseUnavailableError as error:
            if self._problem != str(error):  # said once
                log.warning("the catalogue cannot be stored, and is later: %s", error)
            self._problem = str(error)
        else:
            self._problem = ""

    async def news(self) -> CatalogueNews:
        """See `Replication`."""
        await self._signal.wait()
        with self._guard:
            news, self._news = self._news, CatalogueNews()
        return news

    def report_stale(self, server: str) -> None:
        """See `Replication`."""

        async def report() -> None:
            await self._database.execute(lambda c: self._feed.add(c, _STALE_STORE, server))

        reported = self._database.submit(report())
        self._reports.add(reported)
        reported.add_done_callback(self._note_reported)

    def _note_reported(self, report: "asyncio.Future[Any]") -> None:
        self._reports.discard(report)
        if not report.cancelled() and (error := report.exception()) is not None:
            log.debug("that a server has other tools could not be told: %s", error)

    def _write(self, entry: ServerEntry, lease: str) -> None:
        content, server = msgspec.json.encode(entry), entry.name

        async def write(connection: Connection) -> bool:
            if not await self._leases.fence(connection, lease):
                return False
            await connection.execute(_WRITE, CATALOGUE, STORE, server, content)
            await self._feed.add(connection, STORE, server)
            return True

        if self._stored.get(server) == content or self._database.run(write):
            self._stored[server], self._written[server] = content, entry

    async def _read_again(self, names: frozenset[str] | None) -> None:
        """Reads entries that have changed, and passes on those that others have written."""
        wanted = None if names is None else sorted(names)
        read = await self._database.execute(lambda c: self._fetch(c, wanted))
        # Only now that nothing can fail: what is read again after a failure is news still.
        new = self._decode([row for row in read if self._stored.get(row[0]) != row[1]])
        if new:
            with self._guard:
                older = {entry.name: entry for entry in self._news.entries}
                newest = older | {entry.name: entry for entry in new}
                self._news = msgspec.structs.replace(self._news, entries=tuple(newest.values()))
            self._signal.set()

    async def _fetch(self, connection: Connection, names: list[str] | None) -> list[Any]:
        """Returns servers' names and the content of their rows."""
        return await connection.fetch(_READ, CATALOGUE, STORE, names)

    def _decode(self, rows: Iterable[Any]) -> list[ServerEntry]:
        """Returns the entries in rows, and remembers that they are stored."""
        entries: list[ServerEntry] = []
        for name, content in rows:
            if self._stored.get(name) != content:
                self._stored[name] = content
                self._written.pop(name, None)
            try:
                entry = msgspec.json.decode(content, type=ServerEntry)
            except (ValueError, RecursionError) as error:
                log.warning("the stored entry of %s is not usable: %s", name, error)
                continue
            if entry.name == name:
                entries.append(entry)
        return entries

    async def _note_reviewed(self, names: frozenset[str] | None) -> None:
        with self._guard:
            known = self._news.reviewed
            reviewed = None if names is None or known is None else known | names
            self._news = msgspec.structs.replace(self._news, reviewed=reviewed)
        self._signal.set()

    async def _note_stale(self, names: frozenset[str] | None) -> None:
        with self._guard:
            stale = self._news.stale | (names or frozenset())
            self._news = msgspec.structs.replace(self._news, stale=stale)
        self._signal.set()
