import math
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import edge_of
from toolscript.graph.base import Edge, Template, adaptive_alpha
from toolscript.graph.related import relations
from toolscript.graph.tool_graph import EPOCH, MAX_PAIRS, WINDOW, ToolGraph, relatedness
from toolscript.types import Related

DAY_S = 86_400.0
networkx: Any = import_module("networkx")  # without types of its own


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = EPOCH

    def __call__(self) -> float:
        return self.now


def graph_of(*sequences: str, **options: Any) -> ToolGraph:
    """A graph that has learned sequences of one-letter tools."""
    graph = ToolGraph(clock=Clock(), **options)
    for sequence in sequences:
        graph.learn(f"s__{letter}" for letter in sequence)
    return graph


PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


@pytest.mark.requirement("graph:methods")
@given(pairs=PAIRS)
def test_adamic_adar_is_that_of_networkx(pairs: list[tuple[int, int]]) -> None:
    pairs = [(a, b) for a, b in pairs if a != b]
    graph = ToolGraph()
    graph.bootstrap_from_templates(
        [Template(pairs=tuple((f"s__{a}", f"s__{b}") for a, b in pairs))]
    )
    oracle = networkx.Graph([(f"s__{a}", f"s__{b}") for a, b in pairs])
    nodes = sorted(oracle.nodes)
    every = [(a, b) for a in nodes for b in nodes if a != b]
    expected = {(a, b): sum_ for a, b, sum_ in networkx.adamic_adar_index(oracle, every)}
    for a, b in every:
        assert graph.adamic_adar_between(a, b) == pytest.approx(expected[a, b])
    for a in nodes:
        found = graph.adamic_adar(a, limit=100)
        assert dict(found) == pytest.approx(
            {b: expected[a, b] for b in nodes if b != a and expected[a, b] > 0}
        )
        assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.requirement("graph:methods")
def test_relatedness_is_the_largest_with_the_context_in_0_to_1_by_hand() -> None:
    graph = ToolGraph()
    # a and b share x (of degree 3) and y (of degree 2); a and c share x.
    pairs = [("a", "x"), ("x", "b"), ("y", "a"), ("b", "y"), ("c", "x")]
    graph.bootstrap_from_templates([Template(pairs=tuple(pairs))])
    shared = 1 / math.log(3) + 1 / math.log(2)
    assert graph.adamic_adar_between("a", "b") == pytest.approx(shared)
    assert graph.adamic_adar_between("a", "c") == pytest.approx(1 / math.log(3))
    assert graph.graph_relatedness("a", ["c", "b"]) == pytest.approx(shared / (1 + shared))
    assert graph.graph_relatedness("a", ["c"]) == pytest.approx(relatedness(1 / math.log(3)))
    assert graph.graph_relatedness("a", []) == graph.graph_relatedness("a", ["z", "a"]) == 0
    assert graph.graph_relatedness("z", ["a"]) == 0
    assert relatedness(0) == 0 < relatedness(1e9) < 1
    assert graph.adamic_adar("a", limit=1) == [("b", pytest.approx(shared))]
    assert graph.adamic_adar("z") == []
    tools, context = "abcxyz", ["c", "b", "b", "z"]
    expected = {tool: graph.graph_relatedness(tool, context) for tool in tools}
    assert graph.related_to(context) == pytest.approx({t: r for t, r in expected.items() if r})
    assert graph.related_to(["z"]) is graph.related_to([]) is None


@pytest.mark.requirement("graph:methods")
def test_neighbours_by_direction() -> None:
    graph = graph_of("ab", "cb")
    assert graph.neighbors("s__b") == ["s__a", "s__c"]
    assert graph.neighbors("s__b", "in") == ["s__a", "s__c"]
    assert graph.neighbors("s__b", "out") == []
    assert graph.neighbors("s__a", "out") == ["s__b"]
    assert graph.neighbors("s__z") == []
    assert graph.edge_count == 2


@pytest.mark.requirement("graph:alpha")
@pytest.mark.parametrize(
    ("edges", "alpha"),
    [(0, 1.0), (1, 0.8), (49, 0.8), (50, 0.6), (199, 0.6), (200, 0.5), (10**6, 0.5)],
)
def test_alpha_follows_the_number_of_edges(edges: int, alpha: float) -> None:
    assert adaptive_alpha(edges) == alpha


@pytest.mark.requirement("graph:learning")
def test_a_sequence_leads_from_each_tool_to_all_after_it() -> None:
    graph = graph_of("abc", "ab")
    assert edge_of(graph, "s__a", "s__b") == Edge(
        source="s__a", target="s__b", kinds=("observed",), weight=2.0, times=2
    )
    after = edge_of(graph, "s__a", "s__c")
    assert after is not None
    assert after.times == 1
    assert edge_of(graph, "s__b", "s__a") is None
    assert edge_of(graph, "s__a", "s__z") is None
    assert [edge.target for edge in graph.strongest(1)] == ["s__b"]


def test_only_the_latest_tools_of_a_sequence_lead_on() -> None:
    letters = "abcdefghijkl"
    graph = graph_of(letters)
    last = f"s__{letters[-1]}"
    assert graph.neighbors(last, "in") == [f"s__{c}" for c in letters[-1 - WINDOW : -1]]


@pytest.mark.requirement("graph:learning")
def test_a_failure_is_counted_and_leads_nowhere() -> None:
    graph = ToolGraph()
    graph.learn([("s__a", True), ("s__b", False), ("s__c", True)])
    assert graph.neighbors("s__b") == []
    assert graph.neighbors("s__a") == ["s__c"]
    stats = graph.stats()
    assert (stats.calls, stats.failures, stats.edges, stats.observed) == (3, 1, 1, 1)


def test_a_tool_used_twice_is_no_edge_to_itself() -> None:
    graph = graph_of("aaba")
    assert graph.neighbors("s__a", "out") == graph.neighbors("s__a", "in") == ["s__b"]


@pytest.mark.requirement("graph:learning")
def test_what_was_long_ago_weighs_less() -> None:
    clock = Clock()
    graph = ToolGraph(half_life_days=10, clock=clock)
    graph.learn(["s__a", "s__b"])
    clock.now += 20 * DAY_S
    graph.learn(["s__a", "s__c"])
    old, new = edge_of(graph, "s__a", "s__b"), edge_of(graph, "s__a", "s__c")
    assert old is not None
    assert new is not None
    assert (old.weight, new.weight) == (0.25, 1.0)
    assert old.times == new.times == 1


@pytest.mark.requirement("graph:methods")
def test_templates_are_taken_over_once_and_do_not_decay() -> None:
    clock = Clock()
    graph = ToolGraph(clock=clock)
    template = Template(pairs=(("s__a", "s__b"), ("s__b", "s__c"), ("s__c", "s__c")))
    assert graph.bootstrap_from_templates([template]) == 2
    assert graph.bootstrap_from_templates([template]) == 0
    clock.now += 1000 * DAY_S
    edge = edge_of(graph, "s__a", "s__b")
    assert edge is not None
    assert (edge.weight, edge.times, edge.kinds) == (1.0, 0, ("template",))
    graph.learn(["s__a", "s__b"])
    seen = edge_of(graph, "s__a", "s__b")
    assert seen is not None
    assert seen.kinds == ("observed", "template")
    assert seen.weight == 2.0


def test_the_weakest_edges_go_where_there_are_too_many_and_stated_ones_stay() -> None:
    graph = ToolGraph(max_edges=20, clock=Clock())
    graph.add_dependencies([("s__x", "s__y")])
    graph.learn(["s__a", "s__b"])
    graph.learn(["s__a", "s__b"])
    for number in range(200):
        graph.learn([f"s__{number}", f"s__{number}-2"])
        assert graph.edge_count <= 20
    for kept in (("s__x", "s__y"), ("s__a", "s__b")):
        assert edge_of(graph, *kept)
    assert graph.neighbors("s__a") == ["s__b"]


def test_what_is_stated_stays_when_it_is_most_of_all_edges() -> None:
    graph = ToolGraph(max_edges=20, clock=Clock())
    stated = [(f"s__{number}", f"s__{number + 1}") for number in range(18)]
    graph.bootstrap_from_templates([Template(pairs=tuple(stated[:10]))])
    graph.add_dependencies(stated[10:])
    for number in range(10):
        graph.learn([f"s__a{number}", f"s__b{number}"])
        assert graph.edge_count <= 20
        assert all(edge_of(graph, *pair) for pair in stated)


def test_an_id_that_is_too_long_is_not_learned() -> None:
    graph = ToolGraph()
    graph.learn(["s__a", "s__" + "b" * 1000, "s__c"])
    assert graph.neighbors("s__a") == ["s__c"]


def test_everything_can_be_forgotten() -> None:
    graph = graph_of("abc")
    graph.record_gain(1.0)
    graph.clear()
    assert graph.stats() == ToolGraph().stats()
    assert graph.neighbors("s__a") == []


@pytest.mark.requirement("graph:learning")
def test_skill_is_the_mean_gain_of_which_the_first_eight_are_none() -> None:
    graph = ToolGraph()
    assert graph.predictive_skill == 0
    for _ in range(4):
        graph.record_gain(1.0)
    assert graph.predictive_skill == pytest.approx(4 / 12)
    for _ in range(100):
        graph.record_gain(-1.0)
    assert graph.predictive_skill == 0
    for _ in range(5000):
        graph.record_gain(1.0)
    assert 0.9 < graph.predictive_skill <= 1


@pytest.mark.requirement("graph:learning")
def test_two_tools_go_together_after_three_uses_in_two_sessions() -> None:
    graph, first = ToolGraph(), set[tuple[str, str]]()

    def use(pairs: set[tuple[str, str]]) -> tuple[Related, ...]:
        graph.observe(("s__a",), "s__b", pairs=pairs)
        return relations(graph, "s__a").after

    assert not any(use(first) for _ in range(9))
    [found] = use(set())
    assert (found.tool, found.evidence) == ("s__b", "used right after it 10 times")
    graph.learn(["s__a", "s__c"])
    graph.learn(["s__a", "s__c"])
    assert [each.tool for each in relations(graph, "s__a").after] == ["s__b"]
    graph.learn(["s__a", "s__c"])
    assert [each.tool for each in relations(graph, "s__a").after] == ["s__b", "s__c"]


def test_of_a_long_session_only_the_first_pairs_are_told_apart() -> None:
    graph, pairs = ToolGraph(), {("x", str(number)) for number in range(MAX_PAIRS)}
    for _ in range(5):
        graph.observe(("s__a",), "s__b", pairs=pairs)
    assert len(pairs) == MAX_PAIRS
    assert relations(graph, "s__a").after == ()


@given(sequences=st.lists(st.text("abcdef", max_size=8), max_size=8))
def test_edges_are_counted_and_known_at_both_ends(sequences: list[str]) -> None:
    graph = graph_of(*sequences)
    assert graph.edge_count == len(list(graph.data.edges()))
    for edge in graph.strongest(1000):
        assert edge.target in graph.neighbors(edge.source, "out")
        assert edge.source in graph.neighbors(edge.target, "in")


def test_what_was_learned_is_handed_over_once_and_restores_the_same_graph() -> None:
    graph = graph_of("abcd", "bad")
    graph.add_dependencies([("s__a", "s__c")])
    graph.bootstrap_from_templates([Template(pairs=(("s__d", "s__e"),))])
    graph.record_gain(0.5)
    change = graph.drain_changes()
    assert change
    assert not graph.drain_changes()
    again = ToolGraph(clock=Clock())
    again.rebase(change)
    assert again.stats() == graph.stats()
    assert again.strongest(100) == graph.strongest(100)
    assert again.data.totals == graph.data.totals


def test_direct_needs_that_may_be_shown_are_shown() -> None:
    graph = ToolGraph()
    graph.add_dependencies([("s__a", "s__c"), ("s__a", "s__b"), ("s__b", "s__d")])
    found = relations(graph, "s__a").needs
    assert [(each.tool, each.evidence) for each in found] == [
        ("s__b", "declared to be needed first"),
        ("s__c", "declared to be needed first"),
    ]
    assert [n.tool for n in relations(graph, "s__a", lambda tool: tool != "s__b").needs] == ["s__c"]
