"""A database of a real PostgreSQL server, for the tests that ask for one."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count

import pytest

from tests.pooler import installed, pooler
from tests.postgres_server import PostgresServer, postgres_server
from toolscript.postgres.database import Database

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    """The server that the tests of a process share, with the tables in the database ``made``."""
    with postgres_server() as server:
        server.execute("create database made")
        database = Database(server.url("made"))
        database.open()
        database.close()
        yield server


@pytest.fixture(scope="session")
def new_database(postgres: PostgresServer) -> Callable[[], str]:
    """Makes databases with tables and nothing in them; returns the address of each."""

    def made() -> str:
        name = f"test_{next(_NUMBERS)}"
        postgres.execute(f"create database {name} template made")
        return postgres.url(name)

    return made


@pytest.fixture(scope="session")
def pooler_port(postgres: PostgresServer) -> Generator[int]:
    """The port of a pooler in transaction mode, before the server."""
    program = installed()
    if program is None:
        pytest.skip("PgBouncer is not installed; on Debian: apt install pgbouncer")
    with pooler(program, postgres) as port:
        yield port


@pytest.fixture
def database_url(new_database: Callable[[], str]) -> str:
    """The address of a database with tables and nothing in them."""
    return new_database()


@pytest.fixture
def connect(database_url: str) -> Generator[Callable[[], Database]]:
    """Connects to the test's database, as a gateway by itself would each time."""
    with connections(database_url) as connected:
        yield connected


@pytest.fixture
def connect_pooled(
    postgres: PostgresServer, pooler_port: int, database_url: str
) -> Generator[Callable[[], Database]]:
    """The same, through a pooler."""
    url = database_url.replace(f":{postgres.port}/", f":{pooler_port}/")
    with connections(url) as connected:
        yield connected


@contextmanager
def connections(url: str) -> Generator[Callable[[], Database]]:
    """Makes connections to a database that are closed with the block."""
    opened: list[Database] = []

    def connected() -> Database:
        opened.append(database := Database(url))
        database.open()
        return database

    try:
        yield connected
    finally:
        for each in opened:
            each.close()
