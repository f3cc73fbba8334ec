from dataclasses import replace

import pytest

from toolscript.retrieval.profiles import search_profile, skills_profile


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_the_weights_of_the_search_profile_are_alpha_and_the_rest(alpha: float) -> None:
    """search:fusion"""
    profile = search_profile(alpha, 3, 0.35)
    assert profile.weights == pytest.approx({"semantic": alpha, "fuzzy": 1 - alpha})
    assert (profile.limit, profile.threshold) == (3, 0.35)


def test_a_question_for_skills_is_one() -> None:
    """skills:folders: everything else is as for tools."""
    tools, skills = search_profile(0.7, 3, 0.35), skills_profile(0.7, 3, 0.35)
    assert skills == replace(tools, name="skills", parts=False)
