"""The pool of connections, when work takes too long and when it is closed."""

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


def test_work_that_takes_too_long_is_left_and_the_pool_goes_on(
    connect: Callable[[], Database],
) -> None:
    database = connect()
    for _ in range(2 * database.max_connections):  # more than there are connections
        with pytest.raises(DatabaseUnavailableError, match=r"no answer within 0\.05 s"):
            database.run(slow, 0.05)
    assert database.run(one) == 1
    assert not database.problem, "one slow statement is no failure of the database"


def test_an_error_of_the_work_is_told_as_it_is(connect: Callable[[], Database]) -> None:
    async def fails(_: Connection) -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        connect().run(fails, 10)


def test_a_closed_database_refuses_work_in_one_line(connect: Callable[[], Database]) -> None:
    database = connect()
    database.close()
    with pytest.raises(DatabaseUnavailableError, match="are closed"):
        database.run(one)
    with pytest.raises(DatabaseUnavailableError, match="are closed"):
        database.run_together([one, one], 10)
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
