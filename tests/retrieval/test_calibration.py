import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.calibration import CURVES, DEFAULT, GOOD, Curve, curve_of

EVERY = {**CURVES, "one that was not measured": DEFAULT}


@pytest.mark.parametrize("name", EVERY)
def test_unrelated_is_0_a_good_answer_is_good_and_1_stays_1(name: str) -> None:
    """search:calibrated"""
    curve = EVERY[name]
    cosines = np.array([-1.0, curve.floor, curve.good, 1.0], dtype=np.float32)
    np.testing.assert_allclose(curve(cosines), [0.0, 0.0, GOOD, 1.0], atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
@given(cosines=st.lists(st.floats(-1.125, 1.125, width=32), min_size=2))
def test_calibration_keeps_the_order_and_stays_in_0_to_1(name: str, cosines: list[float]) -> None:
    """search:calibrated"""
    scores = EVERY[name](np.array(sorted(cosines), dtype=np.float32))
    assert (np.diff(scores) >= 0).all()
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("name", EVERY)
def test_between_floor_and_1_no_two_cosines_fall_together(name: str) -> None:
    """search:calibrated"""
    cosines = np.linspace(EVERY[name].floor, 1, 2000, dtype=np.float32)
    assert (np.diff(EVERY[name](cosines)) > 0).all()


def test_the_points_between_are_on_straight_lines() -> None:
    """search:calibrated"""
    curve = Curve(0.2, 0.6)
    found = curve(np.array([0.4, 0.8], dtype=np.float32))
    np.testing.assert_allclose(found, [0.4, 0.9], atol=1e-6)


def test_what_was_not_answered_stays_unanswered() -> None:
    assert np.isnan(DEFAULT(np.array([np.nan], dtype=np.float32))).all()


def test_a_model_that_was_not_measured_keeps_its_cosines() -> None:
    """search:calibrated"""
    cosines = np.array([0.1, 0.35, 0.9], dtype=np.float32)
    np.testing.assert_allclose(curve_of("unheard-of")(cosines), cosines, atol=1e-6)
    assert curve_of("all-MiniLM-L6-v2") is CURVES["all-MiniLM-L6-v2"]
