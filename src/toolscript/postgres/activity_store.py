"""Stores the most recent tool calls of all gateways with one catalogue in PostgreSQL."""

from collections.abc import AsyncGenerator, Sequence

import msgspec
from msgspec.structs import replace

from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.schema import CATALOGUE, lock_row
from toolscript.storage.activity_log import MAX_ROWS, ActivityPage, ActivityQuery, RecordedCall

_BATCH = 1000
_encode = msgspec.msgpack.encode
_LOCK = "call"  # of the rows that are locks
_NEWEST = "select coalesce(max(id), 0) from toolscript.call where catalogue = $1"
_INSERT = """
insert into toolscript.call (catalogue, id, who, outcome, content) values ($1, $2, $3, $4, $5)
"""
_DELETE_OLD = "delete from toolscript.call where catalogue = $1 and id <= $2"
_READ = """
select id, content from toolscript.call
where catalogue = $1 and ($2::bigint is null or id < $2)
and ($3::text is null or who = $3) and ($4::text is null or outcome = $4)
order by id desc limit $5
"""


class DatabaseActivityStore:
    """See `ActivityStorage`.

    Args:
        database: Where the calls are.
    """

    location = "in the database"

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, calls: Sequence[RecordedCall]) -> None:
        """See `ActivityStorage`."""

        async def append(connection: Connection) -> None:
            await self._lock(connection)
            newest = await connection.fetchval(_NEWEST, CATALOGUE)
            rows = [
                (CATALOGUE, number, call.who, call.outcome, _encode(replace(call, id=number)))
                for number, call in enumerate(calls, newest + 1)
            ]
            await connection.executemany(_INSERT, rows)
            oldest = newest + len(calls) - MAX_ROWS
            await connection.execute(_DELETE_OLD, CATALOGUE, oldest)

        self._database.run(append)

    async def _lock(self, connection: Connection) -> None:
        """Lets one transaction at a time give out ids: none comes after a higher one was read.

        A transaction whose process hangs is ended.
        """
        await connection.execute("set local idle_in_transaction_session_timeout = '5s'")
        await lock_row(connection, _LOCK, "")

    def read(self, query: ActivityQuery) -> ActivityPage:
        """See `ActivityStorage`."""

        async def read(connection: Connection) -> list[RecordedCall]:
            calls: list[RecordedCall] = []
            matches = query.matcher()
            async for call in self._select(connection, query):
                if matches(call.tool):
                    calls.append(call)
                if len(calls) > query.limit:
                    break
            return calls

        calls = self._database.run(read)
        return ActivityPage(calls[: query.limit], has_more=len(calls) > query.limit)

    async def _select(
        self, connection: Connection, query: ActivityQuery
    ) -> AsyncGenerator[RecordedCall]:
        """Yields the calls that fit the query, its pattern aside, the newest first."""
        before, more = query.before, True
        while more:
            rows = await connection.fetch(
                _READ, CATALOGUE, before, query.who, query.outcome, _BATCH
            )
            for number, content in rows:
                before = number
                yield replace(msgspec.msgpack.decode(content, type=RecordedCall), id=number)
            more = len(rows) == _BATCH
