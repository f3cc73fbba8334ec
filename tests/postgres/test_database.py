"""The pool of connections, when work fails and when it is closed."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection


async def one(connection: Connection) -> int:
    return await connection.fetchval("select 1")


async def slow(connection: Connection) -> int:
    await connection.execute("select pg_sleep(5)")
    return 1


def test_an_error_of_the_work_is_told_as_it_is(connect: Callable[[], Database]) -> None:
    async def fails(_: Connection) -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        connect().run(fails)


def test_a_closed_database_refuses_work_in_one_line(connect: Callable[[], Database]) -> None:
    database = connect()
    database.close()
    with pytest.raises(DatabaseUnavailableError, match="are closed"):
        database.run(one)
    gc.collect()  # a coroutine that was never awaited would be an error


def test_work_that_is_under_way_when_the_database_is_closed_ends(
    connect: Callable[[], Database],
) -> None:
    database = connect()

    async def closed() -> None:
        working = asyncio.create_task(asyncio.to_thread(database.run, slow))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(database.close)
        with pytest.raises(DatabaseUnavailableError):
            await working

    asyncio.run(closed())
