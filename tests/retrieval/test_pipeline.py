import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.base import Query, Ranking
from toolscript.retrieval.pipeline import WORD_MATCH_EVEN, fuse_signals, weigh_by_word_match
from toolscript.retrieval.trace import Trace
from toolscript.types import SearchRequest

SCORE = st.floats(0, 1, width=32)
STATE: Any = None


def trace(
    semantic: list[float], fuzzy: list[float], alpha: float = 0.7, *, word_match: bool = True
) -> Trace:
    """The mean of two signals, and the step after it."""
    ranking = {
        "semantic": Ranking(np.array(semantic, dtype=np.float32)),
        "fuzzy": Ranking(np.array(fuzzy, dtype=np.float32)),
    }
    weights = {"semantic": alpha, "fuzzy": 1 - alpha}
    request, rows = SearchRequest(text="x"), np.arange(len(semantic))
    made = Trace(STATE, request, weights, word_match, 3, 0.0, rows, (Query("x"),), (ranking,))
    made.apply(fuse_signals)
    made.apply(weigh_by_word_match)
    return made


def order(found: Trace) -> list[int]:
    return np.argsort(-found.scores, kind="stable").tolist()


@pytest.mark.requirement("search:fusion")
def test_words_that_match_little_count_little_and_words_that_match_well_count_more() -> None:
    meaning = [0.8, 0.7]
    assert order(trace(meaning, [0.1, 0.4], word_match=False)) == [1, 0]
    assert order(trace(meaning, [0.1, 0.4])) == [0, 1]
    assert order(trace([0.8, 0.6], [0.55, 0.95], word_match=False)) == [0, 1]
    assert order(trace([0.8, 0.6], [0.55, 0.95])) == [1, 0]


@pytest.mark.requirement("search:fusion")
def test_beside_words_the_upper_cosines_are_not_drawn_together() -> None:
    """search:fusion: calibration gives the upper half of the cosines the upper fifth."""
    semantic, fuzzy = [1.0, 0.8], [0.3, 0.85]
    assert order(trace(semantic, fuzzy, word_match=False)) == [1, 0]
    assert order(trace(semantic, fuzzy)) == [0, 1]


@pytest.mark.requirement("search:fusion", "search:calibrated")
@given(st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=6), st.floats(0.05, 0.95))
def test_the_best_score_stays_so_that_the_threshold_keeps_its_meaning(
    scores: list[tuple[float, float]], alpha: float
) -> None:
    semantic, fuzzy = map(list, zip(*scores, strict=True))
    found = trace(semantic, fuzzy, alpha)
    before, after = (column.scores[0] for column in found.columns)
    assert after.max() == pytest.approx(before.max(), abs=1e-5)
    assert (after >= 0).all()
    assert (after <= 1 + 1e-5).all()


@pytest.mark.requirement("search:fusion")
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_where_one_signal_has_all_the_weight_the_words_have_no_say(alpha: float) -> None:
    found = trace([0.8, 0.2], [0.1, 0.9], alpha)
    np.testing.assert_allclose(found.columns[1].scores, found.columns[0].scores, atol=1e-6)


def test_a_document_without_a_vector_is_judged_by_its_words() -> None:
    found = trace([0.8, math.nan], [0.2, 0.5])
    assert found.scores[1] > 0


def test_the_step_tells_how_well_the_words_match() -> None:
    little = trace([0.8], [0.3]).columns[1].evidence(0)
    assert little is not None
    assert (little.step, little.text) == (
        "word match",
        "the best words match little (0.30), so meaning weighs 0.98",
    )
    well = trace([0.8], [0.95]).columns[1].evidence(0)
    assert well is not None
    assert well.text == "the best words match well (0.95), so meaning weighs 0.56"
    even = trace([0.8], [WORD_MATCH_EVEN]).columns[1].evidence(0)
    assert even is not None
    assert even.text.endswith("so meaning weighs 0.70")


def test_without_a_semantic_signal_words_are_weighed_as_ever() -> None:
    assert len(trace([math.nan, math.nan], [0.2, 0.5]).columns) == 1
