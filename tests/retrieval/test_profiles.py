import pytest

from toolscript.retrieval.profiles import search_profile, skills_profile


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_the_weights_of_the_search_profile_are_alpha_and_the_rest(alpha: float) -> None:
    """search:fusion"""
    profile = search_profile(alpha, 3, 0.35)
    assert profile.weights == pytest.approx({"semantic": alpha, "fuzzy": 1 - alpha})
    assert (profile.limit, profile.threshold) == (3, 0.35)


def test_words_count_less_in_skills() -> None:
    """skills:folders: 0.8 and 0.2 by default; with alpha 1 they do not count at all."""
    assert skills_profile(0.7, 3, 0.35).weights == pytest.approx({"semantic": 0.8, "fuzzy": 0.2})
    assert skills_profile(1.0, 3, 0.35).weights == {"semantic": 1.0, "fuzzy": 0.0}
