"""What every `GraphStorage` does, in a file and in a database."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graph.test_tool_graph import Clock, graph_of
from tests.support import edge_of
from toolscript.graph.base import GraphStorage, Template
from toolscript.graph.counts import GraphDelta
from toolscript.graph.forecast import Forecast
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.related import relations
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.graph_store import DatabaseGraphStore
from toolscript.types import EVERYTHING, Grant

Open = Callable[[], GraphStorage]
IDS = [f"s__{letter}" for letter in "abcde"]


@pytest.fixture(params=["file", "database"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the graph is: a directory, or the address of a database."""
    kind: str = request.param
    return str(tmp_path) if kind == "file" else request.getfixturevalue("database_url")


@pytest.fixture
def reopened(place: str, request: pytest.FixtureRequest) -> Open:
    """Opens the same storage again and again, as processes beside each other do."""
    if "://" not in place:
        return lambda: GraphStore(Path(place), "key")
    connect: Callable[[], Database] = request.getfixturevalue("connect")

    def in_database() -> GraphStorage:
        database = connect()
        return DatabaseGraphStore(database, ChangeFeed(database))

    return in_database


class Process:
    """A graph and a usage, and the storage that one process has them from."""

    def __init__(self, store: GraphStorage) -> None:
        self.store = store
        self.graph, self.usage = ToolGraph(clock=Clock()), Usage()
        self.load()

    def load(self) -> None:
        assert self.store.load(self.graph, self.usage)

    def learn(self, tools: str) -> None:
        self.graph.learn(f"s__{letter}" for letter in tools)
        self.add()

    def ask(self, tool: str, value: float) -> None:
        self.usage.learn(tool, "m", np.full(4, value, np.float32))
        self.add()

    def clear(self) -> None:
        self.graph.clear()
        self.usage.clear()
        self.add()

    def add(self) -> None:
        assert self.store.add(self.graph.drain_changes(), self.usage.drain_changes())


def described(graph: ToolGraph) -> tuple[object, ...]:
    return graph.stats(), sorted(map(repr, graph.strongest(999)))


@pytest.mark.requirement("graph:learning")
def test_a_graph_is_the_same_when_it_is_read_again(reopened: Open) -> None:
    graph, store = graph_of("abcd", "bad", "xyz"), reopened()
    graph.add_dependencies([("s__a", "t__need")])
    graph.bootstrap_from_templates([Template(pairs=(("s__d", "t__e"),))])
    graph.observe((), "s__a", succeeded=False)
    graph.record_gain(0.7)
    assert store.add(graph.drain_changes(), UsageChange())

    again = Process(reopened()).graph

    assert described(again) == described(graph)
    assert again.data.totals == graph.data.totals
    assert not again.drain_changes()


@pytest.mark.requirement("graph:learning")
def test_what_is_learned_later_is_added(reopened: Open) -> None:
    one = Process(reopened())
    one.learn("ab")
    one.graph.learn(["s__a", "s__b"])
    one.learn("ca")
    assert described(Process(reopened()).graph) == described(one.graph)


@pytest.mark.requirement("graph:learning")
def test_that_two_sessions_used_an_edge_is_stored(reopened: Open) -> None:
    one, pairs = Process(reopened()), set[tuple[str, str]]()
    for _ in range(3):
        one.graph.observe(("s__a",), "s__b", pairs=pairs)
        one.add()
    assert not relations(Process(reopened()).graph, "s__a")
    other = Process(reopened())
    other.learn("ab")
    other.learn("cd")
    for graph in (other.graph, Process(reopened()).graph):
        assert [each.tool for each in relations(graph, "s__a").after] == ["s__b"]
        assert not relations(graph, "s__c")


@pytest.mark.requirement("graph:learning")
def test_two_processes_keep_one_graph(reopened: Open) -> None:
    for sequences in (("ab", "xa"), ("ba", "ab")):
        reopened().add(graph_of(*sequences).drain_changes(), UsageChange())
    both = Process(reopened()).graph
    edge = edge_of(both, "s__a", "s__b")
    assert edge is not None
    assert (edge.weight, edge.times) == (2.0, 2)
    assert both.edge_count == 3
    assert both.stats().calls == 8


def test_what_was_forgotten_is_gone(reopened: Open) -> None:
    one = Process(reopened())
    one.learn("abc")
    one.ask("s__a", 1.0)
    one.graph.clear()
    one.usage.clear()
    one.learn("xy")
    again = Process(reopened())
    assert again.graph.neighbors("s__x") == ["s__y"]
    assert again.graph.edge_count == 1
    assert again.usage.of("m") == {}


def test_what_one_process_forgets_is_gone_for_the_others(reopened: Open) -> None:
    one, other = Process(reopened()), Process(reopened())
    one.learn("abc")
    other.learn("bd")
    other.ask("s__a", 1.0)
    one.clear()
    other.learn("xy")
    for each in (one, other):
        each.load()
    for each in (one, other, Process(reopened())):
        assert described(each.graph) == described(graph_of("xy"))
        assert each.usage.of("m") == {}


def test_what_is_not_stored_yet_outlives_a_reading(reopened: Open) -> None:
    one, other = Process(reopened()), Process(reopened())
    other.learn("ab")
    one.graph.learn(["s__c", "s__d"])
    one.usage.learn("s__c", "m", np.ones(4, np.float32))
    one.load()
    assert described(one.graph) == described(graph_of("ab", "cd"))
    one.add()
    again = Process(reopened())
    assert described(again.graph) == described(one.graph)
    assert again.usage.of("m").keys() == {"s__c"}


def test_the_questions_of_two_processes_are_put_together(reopened: Open) -> None:
    for value in (1.0, 3.0):
        usage = Usage()
        usage.learn("s__a", "m", np.full(4, value, dtype=np.float32))
        reopened().add(GraphDelta(), usage.drain_changes())
    usage = Process(reopened()).usage
    count, summed = usage.of("m")["s__a"]
    assert count == 2
    np.testing.assert_array_equal(summed, np.full(4, 4.0))
    assert usage.of("other") == {}


@pytest.mark.requirement("graph:learning")
def test_the_questions_of_each_holder_are_kept_apart(reopened: Open) -> None:
    """A limited holder's are its own; another's count for others as one."""
    one = Process(reopened())
    limited = Grant(servers=("s",), holder="limited")
    full = Grant(servers=("*",), holder="full")
    for grant, value in (
        (EVERYTHING, 1.0),
        (limited, 3.0),
        (limited, 3.0),
        (full, 5.0),
        (full, 7.0),
    ):
        one.usage.learn("s__a", "m", np.full(4, value, np.float32), grant)
        one.add()
    usage = Process(reopened()).usage

    def counted(holder: str, *, others: bool) -> tuple[float, float]:
        known = usage.of("m", holder, others=others)
        assert known.keys() == {"s__a"}
        count, total = known["s__a"]
        return count, float(total[0])

    holders = ("owner", "limited", "full", "nobody")
    assert [counted(each, others=False) for each in holders] == [(1, 1), (3, 7), (3, 13), (1, 1)]
    assert [counted(each, others=True) for each in holders] == [(2, 7), (4, 13), (3, 13), (2, 7)]


def test_processes_that_have_heard_of_each_other_forecast_alike(reopened: Open) -> None:
    one, other = Process(reopened()), Process(reopened())
    for tools in ("abcd", "abe", "cab"):
        one.learn(tools)
    for tools in ("bcd", "eab", "eab"):
        other.learn(tools)
    for each in (one, other):
        each.load()
    first, *others = [
        Forecast(each.graph, IDS, ["s"] * len(IDS)).chances(["s__a", "s__b"])
        for each in (one, other, Process(reopened()))
    ]
    assert first is not None
    for chances in others:
        assert chances is not None
        np.testing.assert_allclose(chances, first, rtol=1e-9)
    assert len({*first.tolist()}) > 1


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.text("abcde", min_size=1, max_size=4) | st.sampled_from(["clear", "load", "ask"]),
    ),
    max_size=12,
)


@pytest.mark.requirement("graph:learning")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(steps=STEPS)
def test_what_is_read_is_the_sum_of_what_was_added(
    reopened: Open, steps: Sequence[tuple[int, str]]
) -> None:
    processes = [Process(reopened()), Process(reopened())]
    processes[0].clear()
    expected, questions = graph_of(), 0
    for who, step in steps:
        process = processes[who]
        if step == "load":
            process.load()
        elif step == "clear":
            process.clear()
            expected, questions = graph_of(), 0
        elif step == "ask":
            process.ask("s__a", 1.0)
            questions += 1
        else:
            process.learn(step)
            expected.learn(f"s__{letter}" for letter in step)
    for each in processes:
        each.load()
    for each in (*processes, Process(reopened())):
        assert described(each.graph) == described(expected)
        assert each.usage.of("m").get("s__a", (0.0,))[0] == questions


WRITER = """
import sys
from pathlib import Path
from tests.graph.test_tool_graph import graph_of
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.graph_store import DatabaseGraphStore
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.usage import UsageChange

place = sys.argv[1]
if "://" in place:
    database = Database(place)
    store = DatabaseGraphStore(database, ChangeFeed(database))
else:
    store = GraphStore(Path(place), "key")
while store.add(graph_of("abc").drain_changes(), UsageChange()):
    print("added", flush=True)
"""


@pytest.mark.requirement("graph:learning")
def test_a_kill_costs_nothing_that_was_stored(place: str, reopened: Open) -> None:
    calls = added = 0
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, place]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(20)]
            os.kill(process.pid, signal.SIGKILL)
            lines += process.stdout.readlines()
        added += len([line for line in lines if line == "added\n"])
        stats = Process(reopened()).graph.stats()
        assert stats.calls % 3 == 0, "a change is stored as a whole, or not at all"
        assert calls + 3 <= stats.calls
        assert stats.calls >= 3 * added
        assert stats.edges == 3
        calls = stats.calls
    assert added >= 60
