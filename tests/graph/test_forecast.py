import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.test_tool_graph import Clock
from toolscript.graph.base import Template
from toolscript.graph.forecast import Forecast
from toolscript.graph.tool_graph import ToolGraph, relatedness

LETTERS = "abcdefgh"


def forecast(*sequences: str, letters: str = LETTERS, vectors: bool = False) -> Forecast:
    """Over one-letter tools; capital letters are another server's."""
    graph = ToolGraph(clock=Clock())
    ids = tuple(sorted(map(named, letters)))
    rows = np.random.default_rng(0).normal(size=(len(ids), 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    made = Forecast(graph, ids, tuple(i[0] for i in ids), rows if vectors else None)
    for sequence in sequences:
        graph.learn(map(named, sequence))
    return made


def named(letter: str) -> str:
    return f"{'s' if letter.islower() else 't'}__{letter}"


def chances(made: Forecast, context: str) -> dict[str, float]:
    found = made.chances([named(letter) for letter in context])
    assert found is not None
    return {i[-1]: float(p) for i, p in zip(made.ids, found, strict=True)}


def best(made: Forecast, context: str) -> str:
    found = chances(made, context)
    return max(found, key=lambda letter: found[letter])


@pytest.mark.requirement("graph:learning")
def test_what_followed_follows() -> None:
    """graph:learning"""
    made = forecast("abc", "abc", "abd")
    assert best(made, "a") == "b"
    found = chances(made, "ab")
    assert found["c"] > found["d"] > found["e"]


@pytest.mark.requirement("graph:learning")
def test_chances_by_hand() -> None:
    """graph:learning"""
    made = forecast(*["ab"] * 4, letters="abc")
    # a led to b four times and to nothing else: 0.5 is taken off, 1 is added below.
    # Below: popularity, (4 - 0.5, 4 - 0.5, 0) of 8 with 2 left over three tools, all
    # but a; b shares no neighbour with a, nor does c.
    left = (8 - 7 + 1) / 3
    popular = np.array([3.5 + left, 3.5 + left, left]) / 9
    below = popular * [0, 1, 1] / popular[1:].sum()
    level = (np.array([0, 4 - 4 * 0.5 / 4, 0]) + (4 - 3.5 + 1) * below) / 5
    repeat = 0.5 / (4 + 5)
    expected = level / level.sum() * (1 - repeat)
    found = chances(made, "a")
    assert found["b"] == pytest.approx(expected[1])
    assert found["c"] == pytest.approx(expected[2])
    assert found["a"] == pytest.approx(repeat)


def test_what_is_remembered_between_two_questions_follows_every_use() -> None:
    """graph:learning: to the bit, whatever is learned or forgotten meanwhile."""
    made, now = forecast("abc", letters="abcXY", vectors=True), Clock()
    made.graph.clear()
    for step in ("ab", "aX", "bX", "aXY", "ba"):
        context = tuple(map(named, step[:-1]))
        made.graph.observe(context, named(step[-1]), succeeded=step != "ba", when_s=now())
        fresh = Forecast(made.graph, made.ids, made.servers, made.vectors)
        for asked in ("a", "b", "X", "ab"):
            assert chances(made, asked) == chances(fresh, asked)


@pytest.mark.requirement("graph:context")
def test_an_empty_graph_and_a_context_of_nothing_known_say_nothing() -> None:
    """graph:context"""
    assert forecast().scores(["s__a"]) is None
    assert forecast("ab").scores([]) is None
    assert forecast("ab").scores(["x__y"]) is None


def test_scores_are_the_gain_over_chance_times_the_skill() -> None:
    made = forecast(*["ab"] * 4)
    for _ in range(8):
        made.graph.record_gain(0.8)
    scores, found = made.scores(["s__a"]), made.chances(["s__a"])
    assert scores is not None
    assert found is not None
    expected = np.maximum(np.log(found * 8) / np.log(8), 0) * made.graph.predictive_skill
    np.testing.assert_allclose(scores, expected)
    assert made.graph.predictive_skill == pytest.approx(0.4)


@pytest.mark.requirement("graph:context")
def test_a_graph_that_has_not_proved_itself_says_nothing_but_what_templates_do() -> None:
    """graph:context"""
    made = forecast(*["ab"] * 4)
    assert made.scores(["s__a"]) is None
    for _ in range(100):
        made.graph.record_gain(0.15)
    assert made.scores(["s__a"]) is None
    made.graph.bootstrap_from_templates([Template(pairs=(("s__c", "s__d"),))])
    assert made.scores(["s__a"]) is None
    assert made.scores(["s__a", "s__c"]) is not None


def test_where_nothing_is_known_of_a_tool_its_server_and_what_is_popular_is_likely() -> None:
    made = forecast("ab", "ac", "AB", "AB", letters="abcdABCD")
    found = chances(made, "d")
    assert sum(found[each] for each in "abc") > 0.5
    assert found["b"] > found["B"]
    assert chances(made, "D")["B"] > chances(made, "D")["b"]


def test_a_server_that_is_left_is_learned() -> None:
    made = forecast(*["aA", "bB", "cC"] * 4, letters="abcdABCD")
    found = chances(made, "d")
    assert sum(found[each] for each in "ABCD") > 0.5


def test_what_shares_neighbours_is_likelier_than_what_does_not() -> None:
    made = forecast("aX", "bX", "aY", "bY", "cZ", letters="abcXYZ")
    found = chances(made, "a")
    assert found["b"] > found["c"]


def test_what_is_near_in_meaning_is_likelier() -> None:
    made = forecast("ab", vectors=True)
    vectors = made.vectors
    assert vectors is not None
    cosines = vectors @ vectors[made.ids.index("s__h")]
    nearest = [i for i in np.argsort(-cosines) if made.ids[i] not in {"s__h", "s__a", "s__b"}]
    found = made.chances(["s__h"])
    assert found is not None
    assert found[nearest[0]] > found[nearest[-1]]


@pytest.mark.requirement("graph:learning")
def test_a_tool_whose_calls_fail_is_less_likely() -> None:
    """graph:learning"""
    made = forecast("abc", "acb")
    before = chances(made, "a")
    for _ in range(5):
        made.graph.observe((), "s__b", succeeded=False)
    after = chances(made, "a")
    assert after["b"] < before["b"]
    assert after["c"] > before["c"]


def test_repeats_are_as_likely_as_they_are() -> None:
    made = forecast(*["aba"] * 20, *["ab"] * 20)
    found = chances(made, "ab")
    assert found["a"] == found["b"] == pytest.approx(20.5 / 65 / 2)


@pytest.mark.requirement("graph:methods")
def test_a_template_is_enough_for_a_start() -> None:
    """graph:methods"""
    made = forecast()
    made.graph.bootstrap_from_templates([Template(pairs=(("s__a", "s__b"), ("s__b", "s__c")))])
    assert best(made, "a") == "b"
    assert best(made, "b") == "c"
    scores = made.scores(["s__a"])
    assert scores is not None
    assert scores.argmax() == 1


@pytest.mark.requirement("graph:methods")
def test_a5_before_any_use_the_score_is_the_seeds_relatedness() -> None:
    """graph:methods: and more for what a template puts right beside the context."""
    made = forecast()
    pairs = [("s__a", "s__b"), ("s__b", "s__c"), ("s__d", "s__c"), ("s__c", "s__e")]
    made.graph.bootstrap_from_templates([Template(pairs=tuple(pairs))])
    for context in (["s__a"], ["s__e", "s__b"], ["s__c"]):
        scores, found = made.scores(context), made.chances(context)
        assert scores is not None
        assert found is not None
        for row, tool in enumerate(made.ids):
            expected = made.graph.graph_relatedness(tool, context)
            gain = float(made.gains(found)[row])
            beside = [used for used in context if {used, tool} in map(set, pairs)]
            for used in beside:
                shared = made.graph.adamic_adar_between(tool, used) + 1 / math.log(2)
                expected = max(expected, relatedness(shared))
            expected += (1 - expected) * gain * bool(beside)
            assert scores[row] == pytest.approx(expected), tool
    assert [made.ids[row] for row in made.connected(["s__a"])] == ["s__a", "s__b", "s__c"]


@pytest.mark.requirement("graph:learning")
def test_a5_the_forecast_takes_over_as_uses_are_seen() -> None:
    """graph:learning: what is supposed counts as eight uses do, however often it is given."""
    made = forecast()
    made.graph.bootstrap_from_templates([Template(pairs=(("s__a", "s__b"), ("s__b", "s__c")))])
    assert made.graph.inexperience == 1.0
    for seen in range(1, 25):
        made.graph.record_gain(-1.0)  # foreseen worse than chance
        assert made.graph.inexperience == pytest.approx(8 / (8 + seen))
    scores = made.scores(["s__a"])
    assert scores is not None
    related = made.graph.graph_relatedness("s__c", ["s__a"])
    assert made.graph.predictive_skill == 0.0 < related
    assert scores[made.ids.index("s__c")] == pytest.approx(related / 4)


@pytest.mark.requirement("graph:learning")
def test_a_graph_of_sequences_that_mean_nothing_has_no_skill_and_one_of_habits_has() -> None:
    """graph:learning"""
    order = random.Random(0)  # noqa: S311 - the same draw every time
    letters = [chr(ord("a") + i) for i in range(26)]
    noise = ["".join(order.sample(letters, 3)) for _ in range(60)]
    habits = ["".join(order.choice(["abc", "def", "ghi"])) for _ in range(60)]
    skills: list[float] = []
    for sequences in (noise, habits):
        made = forecast(letters="".join(letters), vectors=True)
        for sequence in sequences:
            context: tuple[str, ...] = ()
            for letter in sequence:
                made.evaluate(context, named(letter))
                context = made.graph.observe(context, named(letter))
        skills.append(made.graph.predictive_skill)
    assert skills[0] < 0.1
    assert skills[1] > 0.5


SEQUENCES = st.lists(st.text("abcdABCDxyz", max_size=6), max_size=10)


@settings(max_examples=60)
@given(sequences=SEQUENCES, context=st.text("abcdABCDxyz", min_size=1, max_size=4))
@pytest.mark.parametrize("vectors", [False, True])
def test_chances_sum_to_1_and_scores_are_in_0_to_1(
    sequences: list[str], context: str, *, vectors: bool
) -> None:
    made = forecast(*sequences, letters="abcdABCD", vectors=vectors)
    for _ in range(8):
        made.graph.record_gain(0.9)
    found = made.chances([named(letter) for letter in context])
    if found is None:
        return
    assert found.shape == (8,)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    scores = made.scores([named(letter) for letter in context])
    assert scores is not None
    assert ((scores >= 0) & (scores <= 1)).all()


def test_a_graph_that_was_cleared_and_learns_anew_is_read_anew() -> None:
    made = forecast("ab")
    assert best(made, "a") == "b"
    made.graph.clear()
    made.graph.learn(["s__c", "s__d", "s__c"])
    assert best(made, "c") == "d"
