import math

from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.base import Corpus, Query, Ranking
from toolscript.types import Document


@given(st.permutations(["a__b", "a__a", "b__a", "a_b__a", "A__a"]))
def test_a_corpus_is_sorted_by_id_whatever_it_was_given(ids: list[str]) -> None:
    corpus = Corpus(Document(id=i, server="s", name="t") for i in ids)
    assert [document.id for document in corpus.documents] == sorted(ids)
    assert all(corpus.documents[row].id == i for i, row in corpus.rows.items())
    assert len(corpus) == len(corpus.rows) == 5


def test_a_question_is_taken_apart() -> None:
    query = Query("Read the FILE_name!")
    assert query.words == ["read", "the", "file", "name"]
    assert query.compact == "readthefilename"


def test_a_signal_that_does_not_answer_says_why_for_every_document() -> None:
    ranking = Ranking.unanswered(3, "no model")
    assert all(math.isnan(score) for score in ranking.scores)
    assert ranking.scores.shape == (3,)
    assert ranking.degraded == "no model"
