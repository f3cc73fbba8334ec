"""Stores the named values that several gateways share in PostgreSQL; see `Records`.

A gateway has a copy of every value in memory, which the change feed keeps up to date: reading
asks nothing of the database then, and goes on without it. A command has none, and asks.
"""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toolscript.config.secret_key import SecretKey
from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection, Work
from toolscript.postgres.schema import CATALOGUE, lock_row
from toolscript.storage.base import LostRecordError

log = logging.getLogger(__name__)
_READ = """
select name, version, content from toolscript.record
where catalogue = $1 and store = $2 and ($3::text[] is null or name = any($3))
"""
_WRITE = """
insert into toolscript.record (catalogue, store, name, content) values ($1, $2, $3, $4)
on conflict (catalogue, store, name) do update
set content = excluded.content, version = record.version + 1, changed_at = clock_timestamp()
returning version
"""
_DURABLE = "set local synchronous_commit = on"


@dataclass(frozen=True, slots=True)
class _Value:
    version: int
    content: bytes | None
    """None once it was deleted: the version goes on, so that no older value comes back."""


_ABSENT = _Value(0, None)


@dataclass(slots=True)
class _Lock:
    """A value whose row a transaction of this process has locked."""

    run: Callable[[Work[Any]], Any]
    """Runs work in that transaction."""
    value: _Value
    """As it is in the transaction."""


class DatabaseRecords:
    """See `Records`.

    Args:
        database: Where the values are.
        feed: Tells of changes.
        store: The kind of the values.
        max_age_s: How old the copy may be; a value is not read from an older one. None for any age.
    """

    def __init__(
        self, database: Database, feed: ChangeFeed, store: str, *, max_age_s: float | None = None
    ) -> None:
        self._database = database
        self._feed = feed
        self._key = CATALOGUE, store
        self._max_age_s = max_age_s
        self._copy: dict[str, _Value] = {}
        self._is_loaded = self._is_loading = False
        self._guard = threading.Lock()
        self._locked: dict[str, _Lock] = {}
        """The values that this process has locked, by name."""
        feed.subscribe(store, self._read_again)

    def location(self, name: str) -> str:
        """See `Records`."""
        del name
        return "the database"

    def load(self) -> None:
        """Copies every value, so that reading asks the database for none from now on.

        Changes are told from the start of the feed on, which has to come before.
        """
        self._is_loading = True  # what changes from here on is read again
        self._database.run(lambda connection: self._fetch(connection, None))
        self._is_loaded = True

    def read(self, name: str) -> bytes | None:
        """See `Records`."""
        value = self._value(name)
        return None if value is None else value.content

    def was_written(self, name: str) -> bool:
        """See `Records`."""
        try:
            return self.read(name) is not None
        except OSError:
            return True

    def write(self, name: str, content: bytes) -> None:
        """See `Records`. In a block of `locked` the value counts from its end on."""
        self._write(name, content)

    def delete(self, name: str) -> bool:
        """See `Records`."""
        if self.read(name) is None:
            return False
        self._write(name, None)
        return True

    def names(self) -> list[str]:
        """See `Records`."""
        if not self._is_loaded:
            self._database.run(lambda connection: self._fetch(connection, None))
        return sorted(n for n, value in self._copy.items() if value.content is not None)

    def stamp(self, name: str) -> str:
        """See `Records`."""
        value = self._value(name)
        # A database that went back to an earlier state gives a version to another value.
        return "" if value is None else f"{value.version}.{hash(value.content)}"

    @contextmanager
    def locked(self, name: str, timeout_s: float = -1) -> Generator[None]:
        """See `Records`."""

        async def lock(connection: Connection) -> _Value:
            await connection.execute(_DURABLE)
            if timeout_s >= 0:
                timeout_ms = max(1, round(timeout_s * 1000))
                await connection.execute(f"set local lock_timeout = {timeout_ms}")
            await lock_row(connection, self._key[1], name)
            rows = await connection.fetch(_READ, *self._key, [name])
            return next((_Value(row["version"], row["content"]) for row in rows), _ABSENT)

        with self._database.transaction() as run:
            self._locked[name] = held = _Lock(run, run(lock))
            try:
                yield
            finally:
                del self._locked[name]
        self._take(name, held.value)

    def _value(self, name: str) -> _Value | None:
        if name in self._locked:
            return self._locked[name].value
        if not self._is_loaded:
            self._database.run(lambda connection: self._fetch(connection, [name]))
        elif self._max_age_s is not None and self._feed.age_s > self._max_age_s:
            raise DatabaseUnavailableError(
                f"the database has not answered for {self._feed.age_s:.0f} s, "
                f"and what is known is used for {self._max_age_s:.0f} s at most"
            )
        return self._copy.get(name)

    def _write(self, name: str, content: bytes | None) -> None:
        async def write(connection: Connection) -> _Value:
            await connection.execute(_DURABLE)
            await lock_row(connection, self._key[1], name)
            await self._feed.add(connection, self._key[1], name)
            version: int = await connection.fetchval(_WRITE, *self._key, name, content)
            return _Value(version, content)

        held = self._locked.get(name)
        if held is not None:
            held.value = held.run(write)
        else:
            self._take(name, self._database.run(write))

    async def _read_again(self, names: frozenset[str] | None) -> None:
        """Copies values that have changed, if there is a copy.

        Where any may have changed, what was copied before counts no more.
        """
        if not (self._is_loaded or self._is_loading):
            return
        if names is not None:
            await self._database.execute(lambda c: self._fetch(c, sorted(names)))
            return
        before = dict(self._copy)
        rows = await self._database.execute(lambda c: c.fetch(_READ, *self._key, None))
        now = {name: _Value(version, content) for name, version, content in rows}
        with self._guard:
            since = {n: value for n, value in self._copy.items() if before.get(n) is not value}
            self._copy = now | since

    async def _fetch(self, connection: Connection, names: list[str] | None) -> None:
        for name, version, content in await connection.fetch(_READ, *self._key, names):
            self._take(name, _Value(version, content))

    def _take(self, name: str, value: _Value) -> None:
        """Copies a value, unless a newer version is known."""
        with self._guard:
            known = self._copy.get(name)
            if known is None or known.version <= value.version:
                self._copy[name] = value


class SealedRecords:
    """Values that only gateways with the same secret key can read; see `Records`.

    Args:
        records: Where the sealed values are.
        key: Seals them.
        purpose: What the values are: one that was sealed for another purpose, or as another name,
            is not read.
    """

    def __init__(self, records: DatabaseRecords, key: SecretKey, purpose: str) -> None:
        self._records = records
        self._key = key
        self._purpose = purpose
        self.location = records.location
        self.names = records.names
        self.delete = records.delete
        self.was_written = records.was_written
        self.stamp = records.stamp
        self.locked = records.locked

    def read(self, name: str) -> bytes | None:
        """See `Records`. Raises `LostRecordError` for a value that no known key has sealed."""
        sealed = self._records.read(name)
        if sealed is None:
            return None
        content = self._key.read(sealed, self._bind(name))
        if content is None:
            raise LostRecordError(f"neither secret key has sealed {self._purpose} {name}")
        return content

    def write(self, name: str, content: bytes) -> None:
        """See `Records`."""
        self._records.write(name, self._key.seal(content, self._bind(name)))

    def seal_again(self) -> None:
        """Seals every value with the current key, if there is a previous one.

        Logs which values neither key can read: they stay as they are.
        """
        for name in self.names() if self._key.has_previous else ():
            try:
                with self.locked(name):
                    content = self.read(name)
                    if content is not None:
                        self.write(name, content)
            except OSError as error:
                log.warning("a %s keeps its former key: %s", self._purpose, error)

    def _bind(self, name: str) -> bytes:
        return f"{self._purpose}/{name}".encode()
