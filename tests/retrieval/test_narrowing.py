"""A search that looks at few of very many documents gives the hits that all of them give."""

from collections.abc import Sequence

import pytest

from tests.many_tools import Made, asked, grants, made_tools
from toolscript.embedding.base import CachedVector, Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.graph.learning import Learning
from toolscript.retrieval import narrowing
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Hit, SearchRequest


@pytest.fixture(scope="module")
def made(encoder: Encoder) -> Made:
    return made_tools(encoder)


@pytest.fixture(scope="module")
def learning(made: Made) -> Learning:
    """A graph with some sequences of calls."""
    learning = Learning()
    tools = sorted(made.documents)
    for first in range(0, 900, 30):
        for _ in range(4):
            learning.graph.learn([tools[first], tools[first + 700 // 2], tools[first + 5]])
    return learning


@pytest.fixture(scope="module")
def engine(model: LazyModel, encoder: Encoder, made: Made, learning: Learning) -> SearchEngine:
    semantic = SemanticSignal(model, lambda: None)
    documents = made.documents
    semantic.take(
        encoder.name,
        {each: CachedVector(documents[each].digest, made.vectors[each]) for each in documents},
    )
    engine = SearchEngine(search_profile(0.7, 10, 0.0), semantic=semantic, learning=learning)
    engine.update(documents.values())
    return engine


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents the steps look at, for each search that narrows."""
    found: list[int] = []

    def noted(documents: Sequence[object]) -> Corpus:
        corpus = Corpus(documents)  # type: ignore[arg-type]
        found.append(len(corpus))
        return corpus

    monkeypatch.setattr(narrowing, "Corpus", noted)
    return found


def found(engine: SearchEngine, requests: Sequence[SearchRequest]) -> list[tuple[Hit, ...]]:
    return [
        tuple(hit for hit in engine.search(request).hits if hit.score > 0) for request in requests
    ]


def test_few_documents_give_the_hits_of_all(
    engine: SearchEngine, made: Made, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = sorted(made.documents)
    context = (tools[0], tools[350])
    requests = [
        *asked(explain=True),
        *asked(context=context),
        *asked(words_only=True),
        *asked(limit=40, alpha=0.3),
        *grants(),
        SearchRequest(text="execute a shell command"),
        SearchRequest(text="unpack a zip archive and list its files", servers=("shell-3",)),
    ]
    expected = found(engine, requests)
    assert not sizes
    monkeypatch.setattr(narrowing, "NARROWED_FROM", 100)
    assert found(engine, requests) == expected
    assert len(sizes) == len(requests)
    assert max(sizes) < len(tools)


@pytest.mark.parametrize("more", [{"why": "read_file"}, {"needed": True}], ids=str)
def test_where_any_may_be_asked_for_all_are_looked_at(
    engine: SearchEngine,
    sizes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, object],
) -> None:
    monkeypatch.setattr(narrowing, "NARROWED_FROM", 100)
    assert found(engine, asked(**more))
    assert not sizes


def test_among_fewer_documents_all_are_looked_at(engine: SearchEngine, sizes: list[int]) -> None:
    assert found(engine, asked())
    assert not sizes
