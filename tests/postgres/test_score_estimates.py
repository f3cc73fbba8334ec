"""Those that are the best by all steps are among those that are likely to be."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.many_tools import Made, asked, made_tools
from toolscript.embedding.base import CachedVector, Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.postgres.score_estimates import Kept, SignalScores, likely_best
from toolscript.retrieval.base import Plan
from toolscript.retrieval.capability import DEDICATED, CapabilityReader
from toolscript.retrieval.engine import CorpusCandidates, SearchEngine
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.lexical.bm25f import LexicalIndex
from toolscript.retrieval.pipeline import begin
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.trace import IndexState
from toolscript.types import SearchRequest

KEPT = 100


@pytest.fixture(scope="module")
def made(encoder: Encoder) -> Made:
    return made_tools(encoder)


@pytest.fixture(scope="module")
def engine(model: LazyModel, encoder: Encoder, made: Made) -> SearchEngine:
    semantic = SemanticSignal(model, lambda: None)
    semantic.take(
        encoder.name,
        {key: CachedVector(made.documents[key].digest, each) for key, each in made.vectors.items()},
    )
    engine = SearchEngine(search_profile(0.5, 10, 0.0), semantic=semantic)
    engine.update(made.documents.values())
    return engine


def signals(state: IndexState, plan: Plan) -> SignalScores:
    """What the signals say of all tools."""
    lexical = state.lexical
    assert isinstance(lexical, LexicalIndex)
    rows = range(len(state.corpus))
    sums = [
        [sum(lexical.impact(term, row) for term in lexical.terms(query)) for row in rows]
        for query in plan.queries
    ]
    rankings = begin(state, plan).rankings
    semantic = np.stack([each["semantic"].scores for each in rankings])
    return SignalScores(np.array(sums, np.float32), [semantic, semantic])


def kept(engine: SearchEngine, request: SearchRequest) -> tuple[Sequence[str], Sequence[str]]:
    """The ids of the likely best, and of the hits."""
    candidates = engine.candidates
    assert isinstance(candidates, CorpusCandidates)
    state, plan = candidates.state, engine.plan(request)
    everything = np.ones(len(state.corpus), np.bool_)
    wanted = Kept(KEPT, [everything])
    rows: list[int] = likely_best(state, plan, signals(state, plan), wanted).tolist()
    hits = engine.search(request).hits
    return [state.corpus.ids[row] for row in rows], [hit.document.id for hit in hits]


def test_the_hits_are_among_the_likely_best(engine: SearchEngine, made: Made) -> None:
    lost = 0
    for request in asked()[:12]:
        likely, hits = kept(engine, request)
        assert KEPT <= len(likely) < len(made.documents) / 2
        assert hits[0] in likely
        lost += not set(hits) <= set(likely)
    assert lost == 0


def test_what_decides_about_a_shell_is_among_them(engine: SearchEngine) -> None:
    """Of the tools that do what a shell can do too, the one that does it best."""
    candidates = engine.candidates
    assert isinstance(candidates, CorpusCandidates)
    state = candidates.state
    everything = np.ones(len(state.corpus), np.bool_)
    decided = 0
    profile = replace(engine.profile, limit=None)
    for text in ("unpack a zip archive", "list the files of a folder", "clone a git repository"):
        plan = engine.plan(SearchRequest(text=text, threshold=0.0))
        scores = {hit.document.id: hit.score for hit in engine.search(plan.request, profile).hits}
        reader = CapabilityReader(Stemmer())
        purposes = [reader.purpose(document) for document in state.corpus.documents]
        others = np.array([not purpose.executes for purpose in purposes])
        for wanted in reader.wanted(plan.queries[0]):
            dedicated = others & [wanted.name in purpose.capabilities for purpose in purposes]
            kept = Kept(1, [everything], others=others, dedicated=[dedicated])
            rows: list[int] = likely_best(state, plan, signals(state, plan), kept).tolist()
            doing = [scores.get(state.corpus.ids[row], 0.0) for row in np.flatnonzero(dedicated)]
            found = [scores.get(state.corpus.ids[row], 0.0) for row in rows if dedicated[row]]
            assert max(found, default=0.0) == max(doing, default=0.0) or max(doing) < DEDICATED
            decided += max(doing, default=0.0) >= DEDICATED
            assert len(rows) < 100
    assert decided
