import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.base import Ranking
from toolscript.retrieval.fusion import fuse, shares
from toolscript.retrieval.profiles import search_profile

NAN = math.nan
SCORE = st.floats(0, 1, width=32) | st.just(NAN)


def rankings(**scores: list[float]) -> dict[str, Ranking]:
    return {name: Ranking(np.array(row, dtype=np.float32)) for name, row in scores.items()}


@pytest.mark.requirement("search:fusion")
def test_the_score_is_alpha_semantic_plus_the_rest_fuzzy() -> None:
    found = fuse(
        rankings(semantic=[0.8, 0.1, 1.0, 0.0], fuzzy=[0.5, 0.9, 1.0, 0.0]),
        search_profile(0.7, 3, 0.35).weights,
    )
    # 0.56 + 0.15, 0.07 + 0.27
    np.testing.assert_allclose(found, [0.71, 0.34, 1.0, 0.0], atol=1e-6)


@pytest.mark.requirement("search:fusion")
@pytest.mark.parametrize(("alpha", "expected"), [(0.0, 0.5), (1.0, 0.8), (0.25, 0.575)])
def test_alpha_moves_the_weight(alpha: float, expected: float) -> None:
    found = fuse(rankings(semantic=[0.8], fuzzy=[0.5]), search_profile(alpha, 3, 0).weights)
    np.testing.assert_allclose(found, [expected], atol=1e-6)


@pytest.mark.requirement("search:fusion")
def test_the_weight_of_a_silent_signal_is_renormalised_away() -> None:
    weights = {"semantic": 0.7, "fuzzy": 0.3}
    missing = fuse(rankings(semantic=[NAN, NAN], fuzzy=[0.5, 0.2]), weights)
    np.testing.assert_allclose(missing, [0.5, 0.2], atol=1e-6)


def test_renormalisation_is_per_document_and_over_any_number_of_signals() -> None:
    found = fuse(
        rankings(a=[0.9, NAN, NAN, NAN], b=[0.3, 0.3, NAN, NAN], c=[0.6, 0.6, 0.6, NAN]),
        {"a": 0.5, "b": 0.3, "c": 0.2},
    )
    # Of 1: 0.45, 0.09 and 0.12; of 0.5: 0.09 and 0.12; of 0.2: 0.12; of nothing.
    np.testing.assert_allclose(found, [0.66, 0.42, 0.6, 0.0], atol=1e-6)


def test_a_signal_without_weight_adds_nothing() -> None:
    found = fuse(rankings(semantic=[0.4], fuzzy=[0.2], graph=[1.0]), {"semantic": 1, "fuzzy": 1})
    np.testing.assert_allclose(found, [0.3], atol=1e-6)


def test_where_all_that_answered_weigh_nothing_they_count_alike() -> None:
    found = fuse(rankings(semantic=[NAN], fuzzy=[0.5]), {"semantic": 1.0, "fuzzy": 0.0})
    np.testing.assert_allclose(found, [0.5], atol=1e-6)


def oracle(rows: list[float], weights: list[float]) -> float:
    answered = [(w, s) for w, s in zip(weights, rows, strict=True) if not math.isnan(s)]
    if not answered:
        return 0.0
    mass = sum(w for w, _ in answered)
    if not mass:
        return sum(s for _, s in answered) / len(answered)
    return sum(w * s for w, s in answered) / mass


@given(
    weights=st.tuples(*[st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0])] * 3),
    table=st.lists(st.tuples(SCORE, SCORE, SCORE), min_size=1, max_size=8),
)
def test_fused_scores_are_the_weighted_mean_and_stay_in_0_to_1(
    weights: tuple[float, ...], table: list[tuple[float, ...]]
) -> None:
    columns = [list(column) for column in zip(*table, strict=True)]
    found = fuse(
        rankings(**dict(zip("abc", columns, strict=True))), dict(zip("abc", weights, strict=True))
    )
    expected = [oracle(list(row), list(weights)) for row in table]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert ((found >= 0) & (found <= 1 + 1e-6)).all()


@given(st.lists(SCORE, min_size=3, max_size=3))
def test_the_order_of_the_signals_does_not_matter(row: list[float]) -> None:
    weights = {"a": 0.5, "b": 0.3, "c": 0.2}
    given = dict(zip("abc", row, strict=True))
    results = [
        fuse(rankings(**{name: [given[name]] for name in order}), weights)[0]
        for order in itertools.permutations("abc")
    ]
    np.testing.assert_allclose(results, results[0], atol=1e-6)


@pytest.mark.requirement("search:reason")
def test_the_shares_of_the_signals_that_answered_sum_to_1() -> None:
    weights = {"semantic": 0.7, "fuzzy": 0.3}
    found = shares(rankings(semantic=[0.8, NAN], fuzzy=[0.5, 0.5]), weights, 0)
    assert found == pytest.approx(weights)
    silent = shares(rankings(semantic=[NAN], fuzzy=[0.5]), weights, 0)
    assert silent == pytest.approx({"fuzzy": 1.0})
