"""The graph in the database: what gateways hear of each other, and what an outage costs."""

import threading
from collections.abc import Callable, Generator

import pytest

from tests.contracts.test_graph_stores import Process, described
from tests.graph.test_tool_graph import graph_of
from tests.postgres.test_key_value_store import wait_for
from tests.postgres_server import PostgresServer, postgres_server
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.graph.usage import UsageChange
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.graph_store import MAX_EVENTS, DatabaseGraphStore, fold

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


def events(database: Database) -> int:
    return database.run(lambda c: c.fetchval("select count(*) from toolscript.graph_event"))


def folded(database: Database, at_least: int = 1, kept_s: float = 0.0) -> int:
    """Sums up the events that are old, once no transaction is open any more."""
    return database.run(lambda c: fold(c, "default", at_least=at_least, kept_s=kept_s))


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


def test_a_change_of_before_a_clearing_that_is_heard_after_it_does_not_count(
    connect: Connect,
) -> None:
    one, other = Process(store_of(connect())), Process(store_of(connect()))
    other.learn("ab")
    one.clear()  # it has not heard of that
    one.learn("cd")
    one.load()
    assert described(one.graph) == described(graph_of("cd"))


def test_old_events_are_summed_up(connect: Connect) -> None:
    database = connect()
    one, other = Process(store_of(connect())), Process(store_of(connect()))
    for tools in ("abc", "bad", "cab"):
        one.learn(tools)
    one.ask("s__a", 1.0)
    other.learn("de")

    assert folded(database, at_least=6) == 0, "there are fewer"
    assert folded(database, kept_s=60.0) == 0, "they are not old"
    wait_for(lambda: folded(database) == 5)
    assert events(database) == 0
    one.learn("xy")
    wait_for(lambda: folded(database) == 1)

    for each in (one, other):
        each.load()
    for each in (one, other, Process(store_of(connect()))):
        assert described(each.graph) == described(graph_of("abc", "bad", "cab", "de", "xy"))
        assert each.usage.of("m")["s__a"][0] == 1


def test_an_event_is_not_summed_up_before_an_earlier_transaction_has_ended(
    connect: Connect,
) -> None:
    database = connect()
    one, other = Process(store_of(connect())), Process(store_of(connect()))
    with database.transaction() as run:
        run(lambda c: c.fetchval("select pg_current_xact_id()::text"))
        one.learn("ab")
        other.load()
        assert other.graph.edge_count == 0
        assert folded(connect()) == 0
    other.load()
    assert other.graph.edge_count == 1
    wait_for(lambda: folded(database) == 1)
    one.load()
    assert one.graph.stats().calls == 2


def test_a_gateway_sums_up_what_many_commands_have_added(connect: Connect) -> None:
    database = connect()
    store = store_of(database)
    for _ in range(MAX_EVENTS):
        store.add(graph_of("ab").drain_changes(), UsageChange())
    database.run(
        lambda c: c.execute("update toolscript.graph_event set written_at = now() - interval '1h'")
    )
    Process(store_of(connect())).learn("ab")
    wait_for(lambda: folded(database, at_least=MAX_EVENTS + 2) == 0)
    assert events(database) < MAX_EVENTS
    assert Process(store_of(connect())).graph.stats().calls == 2 * (MAX_EVENTS + 1)


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
