"""A search that looks at few of very many documents gives the hits that all of them give."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.many_tools import Made, alike, asked, grants, made_tools
from toolscript.embedding.base import CachedVector, Encoder, Vectors
from toolscript.embedding.loader import LazyModel, Loaded
from toolscript.errors import UnreachableError
from toolscript.graph.learning import Learning
from toolscript.retrieval import candidate_selection
from toolscript.retrieval.base import Corpus, Rows, SelectedCorpus
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic import semantic_signal
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Hit, SearchRequest

DRIFT = 2e-3
"""What all tools have in common stays as it was while few of them change."""
TOLERANCE = 2e-6
"""Products of fewer rows are added up in another order."""


class Unreachable:
    """A model that embeds questions, and can be reached for no document."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def documents(self, texts: Sequence[str]) -> Vectors:
        raise UnreachableError(f"{len(texts)} texts cannot be sent")


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
    """How many documents the steps look at, for each search that selects candidates."""
    found: list[int] = []

    def noted(corpus: Corpus, rows: Rows) -> SelectedCorpus:
        found.append(rows.size)
        return SelectedCorpus(corpus, rows)

    monkeypatch.setattr(candidate_selection, "SelectedCorpus", noted)
    return found


def found(engine: SearchEngine, requests: Sequence[SearchRequest]) -> list[tuple[Hit, ...]]:
    return [
        tuple(hit for hit in engine.search(request).hits if hit.score > 0) for request in requests
    ]


def told(hit: Hit) -> object:
    """What a hit says but for numbers, which differ in their last digits."""
    steps = hit.explanation and [step.name for step in hit.explanation.steps]
    shares = hit.explanation.shares if hit.explanation else ()
    return hit.reason, hit.related, steps, [(each.signal, each.evidence) for each in shares]


def test_few_documents_give_the_hits_of_all(
    engine: SearchEngine, made: Made, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = sorted(made.documents)
    context = (tools[0], tools[350])
    requests = [
        *asked(explain=True),
        *asked(context=context)[::2],
        *asked(words_only=True)[1::2],
        *asked(limit=40, alpha=0.3)[::2],
        *grants()[::2],
        SearchRequest(text="execute a shell command"),
        SearchRequest(text="unpack a zip archive and list its files", servers=("shell-3",)),
    ]
    expected = found(engine, requests)
    assert not sizes
    monkeypatch.setattr(candidate_selection, "VERY_MANY", 100)
    for request, few, every in zip(requests, found(engine, requests), expected, strict=True):
        assert alike(few, every, TOLERANCE), request
        known = {hit.document.id: told(hit) for hit in every}
        assert all(told(hit) == known.get(hit.document.id, told(hit)) for hit in few), request
    assert len(sizes) == len(requests)
    assert max(sizes) < len(tools)


@pytest.mark.parametrize("more", [{"why": "read_file"}, {"needed": True}], ids=str)
def test_where_any_may_be_asked_for_all_are_looked_at(
    engine: SearchEngine,
    sizes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, object],
) -> None:
    monkeypatch.setattr(candidate_selection, "VERY_MANY", 100)
    assert found(engine, asked(**more))
    assert not sizes


def test_among_fewer_documents_all_are_looked_at(engine: SearchEngine, sizes: list[int]) -> None:
    assert found(engine, asked())
    assert not sizes


def test_what_few_changes_lead_to_is_what_all_anew_lead_to(
    model: LazyModel, encoder: Encoder, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """upstream:live"""
    for module in (candidate_selection, semantic_signal):
        monkeypatch.setattr(module, "VERY_MANY", 100)
    documents = dict(made.documents)
    known = {each: CachedVector(documents[each].digest, made.vectors[each]) for each in documents}

    def engine_of(vectors: dict[str, CachedVector]) -> SearchEngine:
        semantic = SemanticSignal(model, lambda: None)
        semantic.take(encoder.name, dict(vectors))
        engine = SearchEngine(search_profile(0.7, 10, 0.0), semantic=semantic)
        engine.update(documents.values())
        return engine

    engine = engine_of(known)
    found(engine, asked())  # which makes what all vectors are needed for
    for number, each in enumerate(sorted(documents)[5:900:60]):
        text = f"Waters the plants of floor {number} at dawn."
        documents[each] = replace(documents[each], description=text, digest=f"new-{number}")
        engine.update(documents.values())
    anew = engine_of(
        {key: value for key, value in known.items() if documents[key].digest == value.digest}
    )
    pairs = zip(found(engine, asked()), found(anew, asked()), strict=True)
    assert sum(alike(*pair, DRIFT) for pair in pairs) >= 0.95 * len(asked())
    best = engine.search(SearchRequest(text="water the plants of floor 3")).hits[0]
    assert "floor 3" in best.document.description
    assert best.signals["semantic"] > 0.5
    documents.popitem()
    engine.update(documents.values())
    assert engine.indexed == len(documents)
    assert found(engine, asked())


def test_a_changed_document_that_cannot_be_embedded_is_said_to_lack_its_vector(
    encoder: Encoder, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (candidate_selection, semantic_signal):
        monkeypatch.setattr(module, "VERY_MANY", 100)
    documents = dict(made.documents)
    unreachable = cast("Encoder", Unreachable(encoder))
    semantic = SemanticSignal(LazyModel(lambda: Loaded(unreachable)), lambda: None)
    semantic.take(
        encoder.name,
        {each: CachedVector(documents[each].digest, made.vectors[each]) for each in documents},
    )
    engine = SearchEngine(search_profile(0.7, 10, 0.0), semantic=semantic)
    engine.update(documents.values())
    assert not engine.search(SearchRequest(text="read a file")).degraded
    first = min(documents)
    documents[first] = replace(documents[first], description="Waters plants.", digest="new")
    engine.update(documents.values())
    result = engine.search(SearchRequest(text="water the plants"))
    assert result.degraded == (f"semantic: 1 of {len(documents)} tools are not embedded yet",)
    assert result.hits[0].document.id == first
