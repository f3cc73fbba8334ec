from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.encoders import Narrow
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel, Loaded
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.calibration import CURVES, GOOD, Curve, Curves, measure
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest

EVERY = {**CURVES, "another": Curve(0.55, 0.75)}


@pytest.mark.requirement("search:calibrated")
@pytest.mark.parametrize("name", EVERY)
def test_unrelated_is_0_a_good_answer_is_good_and_1_stays_1(name: str) -> None:
    curve = EVERY[name]
    cosines = np.array([-1.0, curve.floor, curve.good, 1.0], dtype=np.float32)
    np.testing.assert_allclose(curve(cosines), [0.0, 0.0, GOOD, 1.0], atol=1e-6)


@pytest.mark.requirement("search:calibrated")
@pytest.mark.parametrize("name", EVERY)
@given(cosines=st.lists(st.floats(-1.125, 1.125, width=32), min_size=2))
def test_calibration_keeps_the_order_and_stays_in_0_to_1(name: str, cosines: list[float]) -> None:
    scores = EVERY[name](np.array(sorted(cosines), dtype=np.float32))
    assert (np.diff(scores) >= 0).all()
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.requirement("search:calibrated")
@pytest.mark.parametrize("name", EVERY)
def test_between_floor_and_1_no_two_cosines_fall_together(name: str) -> None:
    cosines = np.linspace(EVERY[name].floor, 1, 2000, dtype=np.float32)
    assert (np.diff(EVERY[name](cosines)) > 0).all()


@pytest.mark.requirement("search:calibrated")
def test_the_points_between_are_on_straight_lines() -> None:
    curve = Curve(0.2, 0.6)
    found = curve(np.array([0.4, 0.8], dtype=np.float32))
    np.testing.assert_allclose(found, [0.4, 0.9], atol=1e-6)


def test_what_was_not_answered_stays_no_answer() -> None:
    assert np.isnan(Curve(0.1, 0.5)(np.array([np.nan], dtype=np.float32))).all()


# Models that nobody has measured


QUERIES = [
    *("read a file", "what time is it in Tokyo", "commit my changes", "download a web page"),
    *("zxqv blorp", "bake a chocolate cake"),
]
"""Four that have an answer and two that have none."""


@pytest.mark.requirement("search:calibrated")
def test_the_bundled_model_is_measured_as_it_was_on_the_retrieval_sets(encoder: Encoder) -> None:
    found, known = measure(encoder), CURVES[encoder.model]
    assert found.floor == pytest.approx(known.floor, abs=0.03)
    assert found.good == pytest.approx(known.good, abs=0.03)


@pytest.mark.requirement("search:calibrated")
@pytest.mark.parametrize("part", [0.3, 0.6])
def test_a_model_on_another_scale_gives_nearly_the_same_confidences(
    encoder: Encoder, documents: tuple[Document, ...], part: float
) -> None:
    """search:calibrated: what is gibberish for one is gibberish for the other."""

    def best(model: Encoder) -> list[tuple[str, float]]:
        semantic = SemanticSignal(LazyModel(lambda: Loaded(model)), lambda: None)
        engine = SearchEngine(search_profile(0.7, 1, 0), semantic=semantic)
        engine.update(documents)
        hits = [engine.search(SearchRequest(text=query)).hits[0] for query in QUERIES]
        return [(hit.document.id, hit.score) for hit in hits]

    there, here = best(Narrow(encoder, part)), best(encoder)
    assert [found[0] for found in there[:4]] == [found[0] for found in here[:4]]
    scores = np.array([[score for _, score in found] for found in (there, here)])
    np.testing.assert_allclose(*scores[:, :4], atol=0.05)
    np.testing.assert_allclose(*scores[:, 4:], atol=0.1)
    assert all(score >= 0.35 for _, score in there[:4])
    assert all(score < 0.35 for _, score in there[4:])


@pytest.mark.requirement("search:calibrated")
def test_a_model_is_measured_once_and_that_is_kept(encoder: Encoder, tmp_path: Path) -> None:
    model = Narrow(encoder, 0.5)
    first = Curves(tmp_path).of(model)
    texts = len(model.texts)
    assert texts > 0
    assert Curves(tmp_path).of(model) == first
    assert len(model.texts) == texts
    [kept] = tmp_path.iterdir()
    kept.write_text('{"floor": 0.9, "good": 0.1}')
    assert Curves(tmp_path).of(model) == first
    assert len(model.texts) == 2 * texts
    assert Curves(tmp_path).of(Narrow(encoder, 0.1, "narrow@2")) != first


def test_what_was_measured_before_is_not_measured_again(encoder: Encoder, tmp_path: Path) -> None:
    assert Curves(tmp_path).of(encoder) is CURVES[encoder.model]
    assert not list(tmp_path.iterdir())


def test_even_a_useless_model_has_a_curve(encoder: Encoder) -> None:
    curve = measure(Narrow(encoder, 1.0))
    assert -1 <= curve.floor < curve.good < 1
