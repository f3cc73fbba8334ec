import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.test_tool_graph import Clock
from toolscript.graph.base import Template
from toolscript.graph.forecast import VOUCHED, Forecast
from toolscript.graph.tool_graph import ToolGraph

LETTERS = "abcdefgh"


def forecast(*sequences: str, letters: str = LETTERS) -> Forecast:
    """Over one-letter tools; capital letters are another server's."""
    ids = sorted(map(named, letters))
    made = Forecast(ToolGraph(clock=Clock()), ids, [i[0] for i in ids])
    for sequence in sequences:
        made.graph.learn(map(named, sequence))
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
    made = forecast("abc", "abc", "abd")
    assert best(made, "a") == "b"
    found = chances(made, "ab")
    assert found["c"] > found["d"] > found["e"]
    assert found["a"] == found["b"] == 0


@pytest.mark.requirement("graph:learning")
def test_chances_by_hand() -> None:
    made = forecast("ab", "ab", "ab", "aX", letters="abcXYZ")
    # Half of the back-off is for the three tools of a's server, half for all six.
    backoff = np.array([0.25, 0.25, 0.25, 1 / 12, 1 / 12, 1 / 12])
    # a led to b three times and to X once, and to both directly.
    level = (np.array([0, 3, 0, 1, 0, 0]) + backoff) / 5
    level[0] = 0
    found = chances(made, "a")
    expected = level / level.sum()
    assert [found[letter] for letter in "abcXYZ"] == pytest.approx(expected.tolist())
    # After b and a the last one counts half, and each of the two a quarter.
    with_b = (np.array([3, 0, 0, 0, 0, 0]) + backoff) / 4
    level = 0.75 * level + 0.25 * with_b
    level[:2] = 0
    found = chances(made, "ba")
    assert [found[letter] for letter in "abcXYZ"] == pytest.approx((level / level.sum()).tolist())


@pytest.mark.requirement("graph:context")
def test_without_an_edge_of_the_context_the_graph_says_nothing() -> None:
    """graph:context: also if it knows much about other tools."""
    assert forecast().chances(["s__a"]) is None
    made = forecast(*["abc"] * 20, "h")
    for _ in range(20):
        made.graph.record_gain(1.0)
    for context in ([], ["x__y"], ["s__g"], ["s__h"], ["s__g", "s__h"]):
        assert made.chances(context) is None
        assert made.strengths(context) is None
        assert made.evaluate(context, "s__a") == 0
    assert made.strengths(["s__h", "s__a"]) is not None
    assert made.graph.data.totals.foreseen == 20


def test_strengths_are_the_gain_over_chance_times_the_skill() -> None:
    made = forecast(*["ab"] * 4)
    assert made.strengths(["s__a"]) is None, "nothing is proved yet"
    for _ in range(8):
        made.graph.record_gain(0.8)
    strengths, found = made.strengths(["s__a"]), made.chances(["s__a"])
    assert strengths is not None
    assert found is not None
    expected = np.maximum(np.log(np.maximum(found, 1e-12) * 8) / np.log(8), 0) * 0.4
    np.testing.assert_allclose(strengths, expected)


@pytest.mark.requirement("graph:methods")
def test_a_template_is_vouched_for_before_any_use() -> None:
    made = forecast()
    made.graph.bootstrap_from_templates([Template(pairs=(("s__a", "s__b"), ("s__b", "s__c")))])
    assert best(made, "a") == "b"
    assert best(made, "b") == "c"
    strengths, gains = made.strengths(["s__a"]), made.gains(["s__a"])
    assert strengths is not None
    assert gains is not None
    row = made.rows["s__b"]
    assert strengths[row] == pytest.approx(VOUCHED * gains[row]) == strengths.sum()
    for _ in range(100):
        made.graph.record_gain(1.0)
    proven = made.strengths(["s__a"])
    assert proven is not None
    assert proven[row] == pytest.approx(made.graph.predictive_skill * gains[row])
    assert proven[row] > strengths[row]


def test_where_nothing_is_known_of_a_tool_its_server_is_likely() -> None:
    found = chances(forecast("aX", letters="abcdABCDX"), "a")
    assert found["b"] == found["c"] > found["A"] == found["B"]


@pytest.mark.requirement("graph:learning")
def test_a_tool_whose_calls_fail_is_less_likely() -> None:
    made = forecast("abc", "acb")
    before = chances(made, "a")
    for _ in range(5):
        made.graph.observe((), "s__b", succeeded=False)
    after = chances(made, "a")
    assert after["b"] < before["b"]
    assert after["c"] > before["c"]


@pytest.mark.requirement("graph:learning")
def test_a_use_is_evaluated_by_its_gain_unless_it_is_a_repetition() -> None:
    made = forecast("ab")
    chance = chances(made, "a")["b"]
    assert made.evaluate(["s__a"], "s__b") == pytest.approx(math.log(chance * 8) / math.log(8))
    for context, tool in ((["s__a"], "s__a"), (["s__a"], "x__y"), (["x__y"], "s__a")):
        assert made.evaluate(context, tool) == 0
    assert made.graph.data.totals.foreseen == 1


@pytest.mark.requirement("graph:learning")
def test_a_graph_of_sequences_that_mean_nothing_has_no_skill_and_one_of_habits_has() -> None:
    order = random.Random(0)  # noqa: S311 - the same draw every time
    letters = [chr(ord("a") + i) for i in range(26)]
    noise = ["".join(order.sample(letters, 3)) for _ in range(60)]
    habits = ["".join(order.choice(["abc", "def", "ghi"])) for _ in range(60)]
    skills: list[float] = []
    for sequences in (noise, habits):
        made = forecast(letters="".join(letters))
        for sequence in sequences:
            made.graph.learn(map(named, sequence), made.evaluate)
        skills.append(made.graph.predictive_skill)
    assert skills[0] < 0.1
    assert skills[1] > 0.5


SEQUENCES = st.lists(st.text("abcdABCDxyz", max_size=6), max_size=10)


@settings(max_examples=60)
@given(sequences=SEQUENCES, context=st.text("abcdABCDxyz", min_size=1, max_size=20))
def test_chances_sum_to_1_and_strengths_are_in_0_to_1(sequences: list[str], context: str) -> None:
    made = forecast(*sequences, letters="abcdABCD")
    for _ in range(8):
        made.graph.record_gain(0.9)
    used = [named(letter) for letter in context]
    found = made.chances(used)
    if found is None:
        return
    assert found.shape == (8,)
    assert found.sum() == pytest.approx(1) or set(made.ids) <= set(used)
    assert (found >= 0).all()
    strengths = made.strengths(used)
    assert strengths is None or ((strengths >= 0) & (strengths <= 1)).all()


def test_a_graph_that_was_cleared_and_learns_anew_is_read_anew() -> None:
    made = forecast("ab")
    assert best(made, "a") == "b"
    made.graph.clear()
    made.graph.learn(["s__c", "s__d", "s__c"])
    assert best(made, "c") == "d"
