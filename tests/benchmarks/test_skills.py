"""The benchmark of skills: its texts, and what comes out, in counts."""

from collections import Counter

import pytest
from benchmarks.skills.quality import COLLECTIONS, Outcome, measured, questions, skill_catalogue

MEASURED = "guides"
"""The collection that is like what agents carry; measuring the other as well costs a minute."""
OURS, COSINE, WORDS = "toolscript", "cosine of whole files", "BM25 of whole files"


Found = dict[str, Outcome]
pytestmark = pytest.mark.timeout(600)  # some two thousand texts are embedded


@pytest.fixture(scope="module")
def found() -> Found:
    return measured([OURS, COSINE, WORDS], MEASURED)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_there_are_many_different_texts_and_two_questions_for_each(collection: str) -> None:
    there = skill_catalogue(collection).skills
    assert len(there) >= 100
    assert sum(len(skill.passages) >= 2 for skill in there.values()) >= 100
    asked = questions(collection)
    assert Counter(skill for _, skill in asked) == dict.fromkeys(there, 2)
    assert len({question for question, _ in asked}) == len(asked)
    lines = Counter(p.text for skill in there.values() for p in skill.passages)
    assert max(lines.values()) == 1, "no two skills share a passage"


@pytest.mark.long  # two thousand texts are embedded
@pytest.mark.requirement("skills:folders")
def test_skills_are_found_in_other_words(found: Found) -> None:
    """skills:folders: a little below what was measured."""
    assert found[OURS].within(1) >= 0.85
    assert found[OURS].within(3) >= 0.95


@pytest.mark.long
@pytest.mark.requirement("skills:folders")
def test_the_ranking_beats_words_and_the_model_alone(found: Found) -> None:
    ours = found[OURS]
    for other in (found[COSINE], found[WORDS]):
        assert ours.within(1) >= other.within(1) + 0.03
        assert ours.within(3) >= other.within(3) + 0.02
        assert ours.reciprocal > other.reciprocal
