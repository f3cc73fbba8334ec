"""Runs a pool of PostgreSQL connections on an event loop in its own thread.

Stores are synchronous and are used from any thread; a gateway's event loop waits for none of
them. So the pool has a loop to itself: threads wait for it, event loops await it.

Whatever keeps the database from answering is a `DatabaseUnavailableError`, which is also an
`OSError`: a store treats it as it treats a disk that cannot be written.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from toolscript.errors import ConfigError, DatabaseUnavailableError
from toolscript.postgres import schema
from toolscript.postgres.database_connect import connect
from toolscript.postgres.driver import Connection, Work, driver
from toolscript.text.redaction import redact

log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_CONNECTIONS = 8
CONNECT_TIMEOUT_S = 2.0
"""How long a connection, a place in the pool, or the begin of a transaction is waited for."""
QUERY_TIMEOUT_S = 30.0
LOCK_TIMEOUT_S = 25
"""How long any lock is waited for. Refreshing a log-in holds one for 20 s at most."""
IDLE_TRANSACTION_S = 300
"""How long a transaction may wait for its process. Refreshing a log-in takes 20 s at most."""
_CANCELLATIONS, _CANCEL_S = 10, 0.5
"""How often tasks are cancelled at the end, and how long their end is waited for each time."""
MAX_FAILURES, PAUSE_S = 5, 1.0
"""After so many failures in a row, work is refused at once for so many seconds."""
_UNAVAILABLE = (
    "08",  # connection exceptions
    "28",  # it does not let this user in
    "3D",  # there is no such database
    "53",  # insufficient resources: too many connections, a full disk
    "57P",  # shut down, starting, terminated by an administrator
    "25006",  # a standby, which only reads
    "58",  # errors of its system
)
"""The beginnings of SQLSTATE codes that mean: not now."""
_NO_ANSWER = "the database does not answer"
_CLOSED = "the connections to the database are closed"
_HELD = "another process holds a lock in the database (pg_locks shows it); try again"
_LOCKED = "55P03"
"""SQLSTATE: the lock could not be had within ``lock_timeout``."""


class _LockedError(TimeoutError):
    """A lock could not be had in time; the database answers."""


class _LeftError(Exception):
    """A block with a transaction has raised: nothing that was done in it counts."""


class Database:
    """Runs each unit of work in one transaction.

    `open` connects, `close` disconnects. A connection that was lost is made again by the next unit
    of work, which fails in the meantime.

    Args:
        url: The address, ``postgresql://user:password@host:port/database``; several hosts with
            commas between them.
        max_connections: How many connections the pool may have.
    """

    def __init__(self, url: str, max_connections: int = MAX_CONNECTIONS) -> None:
        self.url = url
        self.max_connections = max_connections
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="database", daemon=True)
        self._starting = threading.Lock()
        self._pool: Any = None
        self._opening: asyncio.Lock | None = None
        self._failures = 0
        self._paused_until = 0.0
        self.problem = ""
        """Why the last unit of work could not be run; empty if it was."""

    @property
    def connections(self) -> int:
        """How many connections of the pool are in use."""
        pool = self._pool
        return 0 if pool is None else pool.get_size() - pool.get_idle_size()

    def open(self) -> None:
        """Connects to the database, and brings its tables up to date.

        Raises `DatabaseUnavailableError`, `SchemaVersionError` if this release does not work with
        the tables that are there, and `ConfigError` if this user may not make them.
        """
        try:
            self.run(schema.migrate)
        except driver().PostgresError as error:
            raise ConfigError(
                f"the database refuses the tables of this release: {error}; start a command once "
                "with the address of a user who may make them"
            ) from None

    def start(self) -> None:
        """Starts the thread, without connecting."""
        with self._starting:
            if not self._thread.is_alive():
                self._thread.start()

    def close(self) -> None:
        """Disconnects, and ends the thread."""
        if not self._thread.is_alive():
            return
        self._wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run_loop(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(_cancel())  # what has begun since `_close`
        self._loop.close()

    @property
    def unavailable(self) -> str:
        """Why the last unit of work could not be run, as a sentence; empty if it was."""
        return f"{_NO_ANSWER}: {self.problem}" if self.problem else ""

    def run(self, work: Work[T]) -> T:
        """Runs a unit of work and returns its result. Blocks; any thread but the pool's may call.

        Its transaction is committed when this returns. Raises `DatabaseUnavailableError`: whether
        a commit that was under way was made is then unknown.
        """
        return self._wait(self.execute(work))

    @contextmanager
    def transaction(self) -> Generator[Callable[[Work[Any]], Any]]:
        """Returns what runs units of work in one transaction, which ends with the block.

        Blocks, as `run` does. A block that raises leaves nothing changed.
        """
        context = self._transaction()
        connection = self._wait(context.__aenter__())
        try:
            yield lambda work: self._wait(self._apply(work, connection))
        except BaseException:
            # Not that error itself: whatever it is, it says nothing about the database.
            left = _LeftError()
            self._wait(context.__aexit__(_LeftError, left, None))
            raise
        else:
            self._wait(context.__aexit__(None, None, None))

    def submit(self, work: Coroutine[Any, Any, object]) -> "asyncio.Future[Any]":
        """Has the pool's loop run a coroutine in the background; returns its future."""
        return self._submit(work)  # type: ignore[return-value]

    def call_soon(self, function: Callable[[], object]) -> None:
        """Has the pool's loop call a function. Any thread may call."""
        self.start()
        self._loop.call_soon_threadsafe(function)

    def _submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        try:
            self.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the thread has ended, or its loop
            work.close()
            raise DatabaseUnavailableError(_CLOSED) from None

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._submit(work).result()
        except CancelledError:
            raise DatabaseUnavailableError(_CLOSED) from None

    async def execute(self, work: Work[T]) -> T:
        """Does what `run` does, for coroutines on the database's own loop: see `submit`."""
        async with self._transaction() as connection:
            return await work(connection)

    async def _apply(self, work: Work[T], connection: Connection) -> T:
        with self._failures_told():
            return await work(connection)

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[Connection]:
        """Gives a connection in a transaction, on the pool's loop."""
        if time.monotonic() < self._paused_until:
            raise DatabaseUnavailableError(self.unavailable or _NO_ANSWER)
        with self._failures_told():
            pool = await self._connect()
            connection, transaction = await _begin(pool)
            try:
                yield connection
                await transaction.commit()
            except BaseException:
                try:
                    async with asyncio.timeout(CONNECT_TIMEOUT_S):
                        await transaction.rollback()
                except Exception:  # noqa: BLE001 - the connection may be what failed, in any way
                    connection.terminate()
                raise
            finally:
                await pool.release(connection)
        self._failures, self.problem = 0, ""

    async def _connect(self) -> Any:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._pool is None:
                self._pool = await self._make()
        return self._pool

    async def _make(self) -> Any:
        asyncpg = driver()

        async def keep(_: object) -> None:
            """Every unit of work is a transaction, which leaves nothing to reset."""

        return await asyncpg.create_pool(
            self.url,
            connect=connect,
            min_size=0,
            max_size=self.max_connections,
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=QUERY_TIMEOUT_S,
            # A pooler in transaction mode gives each transaction another connection.
            statement_cache_size=0,
            reset=keep,
            init=_limit_waiting,
            server_settings={"application_name": "toolscript"},
        )

    @contextmanager
    def _failures_told(self) -> Generator[None]:
        """Raises what keeps the database from answering as `DatabaseUnavailableError`."""
        asyncpg = driver()

        try:
            yield
        except (DatabaseUnavailableError, _LockedError):
            raise
        except (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,  # of a connection that was cut between two statements
            OSError,
            TimeoutError,
        ) as error:
            code = str(getattr(error, "sqlstate", "") or "")
            if code == _LOCKED:
                raise _LockedError(_HELD) from None
            if code and not code.startswith(_UNAVAILABLE):
                raise
            self._fail(error)
            raise DatabaseUnavailableError(self.unavailable) from None

    def _fail(self, error: Exception) -> None:
        self.problem = redact(str(error) or type(error).__name__, (self.url,))
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            self._failures, self._paused_until = 0, time.monotonic() + PAUSE_S

    async def _close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()
        await _cancel()


async def _limit_waiting(connection: Connection) -> None:
    """Has the database end waiting for locks, and transactions of processes that are stopped.

    Such a transaction blocks the writers of its rows, and hides later changes from every gateway.
    """
    await connection.execute(
        f"set idle_in_transaction_session_timeout = '{IDLE_TRANSACTION_S}s'; "
        f"set lock_timeout = '{LOCK_TIMEOUT_S}s'"
    )


async def _cancel() -> None:
    """Cancels every other task of the loop, and waits for its end.

    Again where a cancellation is lost, as one that comes with an answer of the database may be.
    """
    for _ in range(_CANCELLATIONS):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if not tasks:
            return
        for task in tasks:
            task.cancel()
        ended, _ = await asyncio.wait(tasks, timeout=_CANCEL_S)
        await asyncio.gather(*ended, return_exceptions=True)


async def _begin(
    pool: Any,
) -> tuple[Connection, Any]:
    """Returns a connection of the pool in a transaction that has begun.

    One that was idle may have been lost without a sign: then another is tried. Where the server
    says nothing at all, the pool's other connections to it are not tried, either.
    """
    for is_last in (False, True):
        connection = await pool.acquire(timeout=CONNECT_TIMEOUT_S)
        transaction = connection.transaction()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await transaction.start()
        except BaseException as error:
            if isinstance(error, TimeoutError):
                connection.terminate()
                await pool.expire_connections()
            await pool.release(connection)
            if is_last or not isinstance(error, Exception):
                raise
        else:
            return connection, transaction
    raise AssertionError("unreachable")
