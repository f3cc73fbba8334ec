"""The tables of the database: made and brought up to date by whoever connects first."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import msgspec
import numpy as np
import pytest

from tests.postgres_server import PostgresServer
from toolscript.errors import ConfigError, SchemaVersionError
from toolscript.graph.counts import EdgeCounts, GlobalCounts, ToolCounts
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage
from toolscript.postgres import schema
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.graph_store import DatabaseGraphStore

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


def test_former_data_is_found_and_the_sql_that_is_told_removes_it(
    connect: Callable[[], Database],
) -> None:
    database = connect()
    assert not database.run(schema.find_former_data)
    database.run(
        lambda c: c.execute(
            "create schema toolscript_index_7; create table toolscript_index_7.document (id text);"
            "create table toolscript.catalogue_index (id text);"
            "insert into toolscript.record (catalogue, store, name) values "
            "('default', 'questions', 'a'), ('default', 'pins', 'b'), ('team', 'pins', 'b');"
            "insert into toolscript.call values ('team', 1, 'owner', 'ok', '')"
        )
    )
    told = database.run(schema.find_former_data)
    assert len(told.split("; ")) == 5
    database.run(lambda c: c.execute(told))
    assert not database.run(schema.find_former_data)
    names = "select name from toolscript.record"
    assert [name for (name,) in database.run(lambda c: c.fetch(names))] == ["b"]


def test_a_user_without_rights_is_told_what_to_do(bare_url: str, postgres: PostgresServer) -> None:
    postgres.execute("drop role if exists guest")
    postgres.execute("create role guest login")
    database = Database(bare_url.replace("postgres:not-needed", "guest"))
    with pytest.raises(ConfigError, match=r"permission denied .* a user who may make them"):
        database.open()
    database.close()


TOTALS = {"gain": 0.5, "foreseen": 2.0}
FOLDED: list[Any] = [
    *(False, False, TOTALS, ["s__a", "s__b"], [[0, 1.0, 1, 0.5, 1], [1, 2.0, 2, 0.0, 0]]),
    *([[0, 1, 1.0, 1.0, 1, 1, 0.0, 1]], [[0, "m", 2.0, np.full(2, 3, "<f4").tobytes()]]),
]
ADDED: list[Any] = [
    *(False, False, TOTALS, ["s__b", "s__a"], [[0, 1.0, 1, 0.0, 0]]),
    *([[1, 0, 0.0, 1.0, 0, 1, 1.0, 10]], [[1, "m", 1.0, np.full(2, 1, "<f4").tobytes()]]),
]
CLEARED: list[Any] = [True, True, TOTALS, ["s__x"], [[0, 1.0, 1, 0.0, 0]], [], []]


@pytest.mark.parametrize("is_cleared", [False, True])
def test_events_of_older_releases_become_counts(
    bare_url: str, postgres: PostgresServer, *, is_cleared: bool
) -> None:
    events = [("default", ADDED), ("another", ADDED), *[("default", CLEARED)] * is_cleared]
    statements = (
        "create schema toolscript; set search_path to toolscript;",
        "create table schema_version (version integer, migrated_at timestamptz default now());",
        "insert into schema_version values (1);",
        schema.migrations()[0][1],
        f"insert into graph_fold values ('default', '1', '{packed(FOLDED)}');",  # noqa: S608 - ours
        "insert into graph_event (catalogue, replica, content) values",
        ", ".join(f"('{name}', '', '{packed(content)}')" for name, content in events),
    )
    postgres.execute("\n".join(statements), bare_url.rpartition("/")[2])
    database = Database(bare_url)
    database.open()
    graph, usage = ToolGraph(), Usage()
    assert DatabaseGraphStore(database, ChangeFeed(database)).load(graph, usage)
    tables = "select tablename from pg_tables where schemaname = 'toolscript'"
    names = {row[0] for row in database.run(lambda c: c.fetch(tables))}
    database.close()

    assert not names & {"graph_event", "graph_fold"}
    if is_cleared:
        assert graph.stats().calls == 1
        assert (graph.edge_count, usage.of("m")) == (0, {})
        return
    assert graph.data.totals == GlobalCounts(1.0, 4.0)
    assert graph.data.nodes["s__b"].uses == ToolCounts(3.0, 3)
    assert graph.data.nodes["s__a"].uses == ToolCounts(1.0, 1, 0.5, 1)
    [(*pair, edge)] = graph.data.edges()
    assert (pair, edge) == (["s__a", "s__b"], EdgeCounts(1.0, 2.0, 1, 2, 1.0, 11))
    count, total = usage.of("m")["s__a"]
    assert (count, total.tolist()) == (3.0, [4.0, 4.0])


def packed(content: list[Any]) -> str:
    """An event as PostgreSQL's text for its bytes."""
    return "\\x" + msgspec.msgpack.encode(content).hex()
