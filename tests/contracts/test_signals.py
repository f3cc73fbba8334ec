"""What every signal has to do."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolscript.embedding.loader import LazyModel, Loaded, load_model
from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document

MODEL = LazyModel(lambda: load_model("bundled", "bundled", 1))
SIGNALS: dict[str, Callable[[], LexicalSignal | SemanticSignal]] = {
    "fuzzy": LexicalSignal,
    "semantic": lambda: SemanticSignal(MODEL, lambda: None),
    "semantic without a model": lambda: SemanticSignal(
        LazyModel(lambda: Loaded(None, "there is none")), lambda: None
    ),
}
each_signal = pytest.mark.parametrize("name", SIGNALS)
QUERIES = [
    "read a file",
    "raed fiel",
    "今日の天気",
    "🚀",
    "\0",
    "the of and",
    "x" * 8192,
    "a " * 4000,
]


def document(name: str, description: str = "") -> Document:
    return Document(
        id=f"s__{name}",
        server="s",
        name=name,
        description=description,
        digest=f"{name}{description}",
    )


def prepared(name: str, corpus: Corpus) -> LexicalSignal | SemanticSignal:
    signal = SIGNALS[name]()
    left = list(signal.prepare(corpus)) if isinstance(signal, SemanticSignal) else []
    assert left == sorted(left, reverse=True)
    assert not left or left[-1] == 0
    return signal


@pytest.mark.requirement("search:fusion")
@each_signal
def test_a_ranking_scores_every_document_from_0_to_1_or_not_at_all(
    name: str, documents: tuple[Document, ...]
) -> None:
    corpus = Corpus(documents)
    index = prepared(name, corpus).index(corpus)
    for text in QUERIES:
        ranking = index.rank(Query(text))
        assert ranking.scores.shape == (len(documents),)
        assert ranking.scores.dtype == np.float32
        answered = ranking.scores[~np.isnan(ranking.scores)]
        assert ((answered >= 0) & (answered <= 1)).all()
        assert bool(ranking.degraded) == bool(np.isnan(ranking.scores).any())


@each_signal
def test_an_empty_corpus_has_an_empty_ranking(name: str) -> None:
    corpus = Corpus(())
    ranking = prepared(name, corpus).index(corpus).rank(Query("read"))
    assert ranking.scores.shape == (0,)


@each_signal
def test_an_index_is_not_changed_by_what_is_learned_later(
    name: str, documents: tuple[Document, ...]
) -> None:
    small = Corpus(documents[:5])
    signal = prepared(name, small)
    index = signal.index(small)
    before = index.rank(Query("read a file"))
    other = Corpus(documents[3:])
    _ = list(signal.prepare(other)) if isinstance(signal, SemanticSignal) else []
    signal.index(other)
    after = index.rank(Query("read a file"))
    np.testing.assert_array_equal(before.scores, after.scores)
    assert before.degraded == after.degraded


@each_signal
def test_an_index_made_before_anything_is_prepared_answers_all_the_same(
    name: str, documents: tuple[Document, ...]
) -> None:
    corpus = Corpus(documents)
    ranking = SIGNALS[name]().index(corpus).rank(Query("read a file"))
    assert ranking.scores.shape == (len(documents),)
    assert not np.isnan(ranking.scores).any() or ranking.degraded


WORD = st.text(max_size=12)


@each_signal
@settings(max_examples=25)
@given(
    rows=st.lists(st.tuples(WORD, st.text(max_size=40)), max_size=4, unique_by=lambda row: row[0]),
    text=st.text(min_size=1, max_size=40),
)
def test_any_unicode_is_ranked(name: str, rows: list[tuple[str, str]], text: str) -> None:
    corpus = Corpus(document(*row) for row in rows)
    scores = prepared(name, corpus).index(corpus).rank(Query(text)).scores
    assert scores.shape == (len(rows),)
    assert (np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all()
