"""The tables of the database: made and brought up to date by whoever connects first."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from tests.postgres_server import PostgresServer
from toolscript.errors import ConfigError, SchemaVersionError
from toolscript.postgres import schema
from toolscript.postgres.database import Database

_NUMBERS = count(1)
_VERSIONS = "select version from toolscript.schema_version order by version"


@pytest.fixture
def bare_url(postgres: PostgresServer) -> str:
    """The address of a database without tables."""
    name = f"bare_{next(_NUMBERS)}"
    postgres.execute(f"create database {name}")
    return postgres.url(name)


def test_tables_are_made_once_however_many_connect(bare_url: str) -> None:
    databases = [Database(bare_url) for _ in range(6)]
    with ThreadPoolExecutor(len(databases)) as pool:
        list(pool.map(Database.open, databases))
    versions = databases[0].run(lambda c: c.fetch(_VERSIONS))
    assert [row[0] for row in versions] == [number for number, _ in schema.migrations()]
    for each in databases:
        each.close()


def test_a_release_works_with_the_next_schema_and_no_later_one(
    connect: Callable[[], Database],
) -> None:
    database = connect()
    insert = "insert into toolscript.schema_version (version) values ($1)"
    database.run(lambda c: c.execute(insert, schema.latest() + 1))
    database.open()
    database.run(lambda c: c.execute(insert, schema.latest() + 2))
    with pytest.raises(SchemaVersionError, match=r"needs \d+; install the release"):
        database.open()


def test_a_user_without_rights_is_told_what_to_do(bare_url: str, postgres: PostgresServer) -> None:
    postgres.execute("drop role if exists guest")
    postgres.execute("create role guest login")
    database = Database(bare_url.replace("postgres:not-needed", "guest"))
    with pytest.raises(ConfigError, match=r"permission denied .* a user who may make them"):
        database.open()
    database.close()
