"""A database of a real PostgreSQL server, for the tests that ask for one."""

from collections.abc import Callable, Generator
from itertools import count

import pytest

from tests.postgres import PostgresServer, postgres_server
from toolscript.cluster import schema
from toolscript.cluster.database import Database

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Generator[PostgresServer]:
    """The server that the tests of a process share, with the tables in the database ``made``."""
    with postgres_server() as server:
        server.execute("create database made")
        database = Database(server.url("made"))
        database.run(schema.migrate)
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


@pytest.fixture
def database_url(new_database: Callable[[], str]) -> str:
    """The address of a database with tables and nothing in them."""
    return new_database()


@pytest.fixture
def connect(database_url: str) -> Generator[Callable[[], Database]]:
    """Connects to the test's database, as a gateway by itself would each time."""
    opened: list[Database] = []

    def connected() -> Database:
        opened.append(database := Database(database_url))
        database.open()
        return database

    yield connected
    for each in opened:
        each.close()
