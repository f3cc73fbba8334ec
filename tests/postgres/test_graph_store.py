"""The graph in the database: what gateways hear of each other, and what an outage costs."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.contracts.test_graph_stores import Process
from tests.graph.test_tool_graph import graph_of
from tests.postgres.test_key_value_store import wait_for
from tests.postgres_server import PostgresServer, postgres_server
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.graph.usage import Usage, UsageChange
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.graph_store import DatabaseGraphStore

Connect = Callable[[], Database]


def store_of(database: Database) -> DatabaseGraphStore:
    return DatabaseGraphStore(database, ChangeFeed(database))


def gateway(database: Database) -> Learning:
    """What learns in a gateway, and hears of what others learn."""
    feed = ChangeFeed(database)
    learning = Learning(DatabaseGraphStore(database, feed))
    feed.start()
    learning.open()
    return learning


def call(learning: Learning, *tools: str) -> None:
    history = SessionHistory()
    for tool in tools:
        learning.record_call(history, tool, succeeded=True)


def test_gateways_hear_what_the_others_learn(connect: Connect) -> None:
    one, other = gateway(connect()), gateway(connect())

    call(one, "s__a", "s__b")
    wait_for(lambda: other.graph.neighbors("s__a") == ["s__b"])
    call(other, "s__b", "s__c")
    wait_for(lambda: one.graph.neighbors("s__b", "out") == ["s__c"])

    for each in (one, other):
        each.close()
        assert each.graph.stats().calls == 4
        assert not each.graph.drain_changes(), "what is heard is not stored once more"


def test_what_is_cleared_is_gone_in_every_gateway(connect: Connect) -> None:
    one, other = gateway(connect()), gateway(connect())
    call(one, "s__a", "s__b")
    wait_for(lambda: other.graph.edge_count == 1)

    other.clear()
    wait_for(lambda: one.graph.stats().calls == 0)
    call(one, "s__x", "s__y")
    wait_for(lambda: other.graph.neighbors("s__x") == ["s__y"])

    for each in (one, other):
        each.close()
        assert each.graph.stats().calls == 2


def test_gateways_that_write_at_once_lose_no_count(connect: Connect) -> None:
    stores = [store_of(connect()) for _ in range(4)]

    def add_often(number: int) -> None:
        tools = ("abcd", "dcba", "badc", "cdab")[number]
        for _ in range(25):
            usage = Usage()
            usage.learn("s__a", "m", np.ones(2, np.float32))
            assert stores[number].add(graph_of(tools).drain_changes(), usage.drain_changes())

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(add_often, range(len(stores))))

    read = Process(store_of(connect()))
    assert read.graph.stats().calls == 4 * 25 * 4
    assert sum(edge.times for edge in read.graph.strongest(99)) == 4 * 25 * 6
    assert read.usage.of("m")["s__a"][0] == 100


def test_connections_that_are_cut_cost_nothing_that_was_stored(
    connect: Connect, postgres: PostgresServer, database_url: str
) -> None:
    name = database_url.rpartition("/")[2]
    store, done = store_of(connect()), threading.Event()
    others = f"where datname = '{name}' and pid <> pg_backend_pid()"

    def cut() -> None:
        while not done.is_set():
            postgres.execute(f"select pg_terminate_backend(pid) from pg_stat_activity {others}")  # noqa: S608 - ours

    cutter = threading.Thread(target=cut)
    cutter.start()
    kept = [store.add(graph_of("ab").drain_changes(), UsageChange()) for _ in range(60)]
    done.set()
    cutter.join()

    calls = Process(store_of(connect())).graph.stats().calls
    assert 2 * sum(kept) <= calls <= 2 * len(kept)


@pytest.fixture
def own_server() -> Generator[PostgresServer]:
    """A server that the test may stop."""
    with postgres_server() as server:
        database = Database(server.url())
        database.open()
        database.close()
        yield server


def test_what_is_learned_while_the_database_is_away_is_stored_later(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(own_server.url())
    database.open()
    learning = gateway(database)
    call(learning, "s__a", "s__b")
    assert learning.flush()
    own_server.stop()

    call(learning, "s__c", "s__d")
    assert not learning.flush()
    assert learning.state.startswith("failing")
    assert caplog.text.count("cannot be written now") == 1
    own_server.start()

    wait_for(lambda: learning.state == "running")
    learning.close()
    again = Database(own_server.url())
    assert Process(store_of(again)).graph.stats().calls == 4
    for each in (database, again):
        each.close()
