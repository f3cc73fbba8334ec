from dataclasses import replace

import pytest

from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel, Loaded
from toolscript.errors import ModelError
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import cosine_profile, search_profile, skills_profile
from toolscript.retrieval.semantic.document_text import document_vectors
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.7, 1.0])
def test_the_weights_of_the_search_profile_are_alpha_and_the_rest(alpha: float) -> None:
    profile = search_profile(alpha, 3, 0.35)
    assert profile.weights == pytest.approx({"semantic": alpha, "fuzzy": 1 - alpha})
    assert (profile.limit, profile.threshold) == (3, 0.35)


def test_a_question_for_skills_is_one() -> None:
    """skills:folders: everything else is as for tools."""
    tools, skills = search_profile(0.7, 3, 0.35), skills_profile(0.7, 3, 0.35)
    assert skills == replace(tools, name="skills", subqueries=False)


def file_passages(path: str, *texts: str) -> list[Document]:
    return [
        Document(
            id=f"{path}#{n}", parent_id=path, server="", name=path, description=text, digest=text
        )
        for n, text in enumerate(texts)
    ]


PASSAGES = [
    *file_passages("bread.md", "Bake the loaf in a closed pot.", "Feed the sourdough."),
    *file_passages("cat.md", "Brush its fur on Sundays.", "Feed the cat twice a day."),
    *file_passages("oven.md", "Bake the loaf in an open pot."),
]


def test_the_cosine_profile_scores_a_file_by_the_raw_cosine_of_its_best_passage(
    model: LazyModel, encoder: Encoder
) -> None:
    signal = SemanticSignal(model, lambda: None)
    engine = SearchEngine(cosine_profile(), semantic=signal)
    engine.update(PASSAGES)
    question = "bake the loaf in a pot"
    cosines = document_vectors(encoder, PASSAGES) @ encoder.query(question)
    best: dict[str, float] = {}
    for each, cosine in zip(PASSAGES, cosines.tolist(), strict=True):
        if cosine >= 0.5:
            best[each.parent_id] = max(cosine, best.get(each.parent_id, 0.0))
    result = engine.search(SearchRequest(text=question))
    found = {hit.document.parent_id: hit.score for hit in result.hits}
    assert found == pytest.approx(best)
    assert list(found) == sorted(best, key=lambda each: -best[each])
    assert {"bread.md#0", "oven.md#0"} <= {hit.document.id for hit in result.hits}


def test_the_cosine_profile_says_why_there_is_no_vector() -> None:
    signal = SemanticSignal(LazyModel(lambda: Loaded(None, "no model")), lambda: None)
    engine = SearchEngine(cosine_profile(), semantic=signal)
    engine.update(PASSAGES)
    with pytest.raises(ModelError, match="no model"):
        engine.search(SearchRequest(text="bake"))
