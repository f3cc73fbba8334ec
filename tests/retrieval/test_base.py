import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from toolscript.retrieval.base import Corpus, Query, Ranking
from toolscript.types import Document


@given(st.permutations(["a__b", "a__a", "b__a", "a_b__a", "A__a"]))
def test_a_corpus_is_sorted_by_id_whatever_it_was_given(ids: list[str]) -> None:
    corpus = Corpus(Document(id=i, server="s", name="t") for i in ids)
    assert [document.id for document in corpus.documents] == sorted(ids)
    assert all(corpus.documents[row].id == i for i, row in corpus.rows.items())
    assert len(corpus) == len(corpus.rows) == 5


ORDERS = st.permutations("abcdef")


@given(
    ORDERS,
    ORDERS,
    st.sets(st.sampled_from("abcdef")),
    st.sampled_from(["as before", "another order", "one renamed", "one less"]),
)
def test_a_corpus_that_replaces_another_is_what_it_is_alone(
    first: list[str], second: list[str], changed: set[str], how: str
) -> None:
    known = {each: Document(id=each, server="s", name="t") for each in first}
    before = Corpus([known[each] for each in first])
    documents = [
        replace(known[each], description="new") if each in changed else known[each]
        for each in (second if how == "another order" else first)
    ]
    if how == "one renamed":
        documents[2] = replace(documents[2], id="g")
    if how == "one less":
        documents.pop(2)
    after, alone = Corpus(documents, before), Corpus(documents)
    assert after.documents == alone.documents
    assert (after.ids, after.rows) == (alone.ids, alone.rows)
    for corpus in (after, alone):
        rows = np.sort(np.concatenate([part.rows[part.rows >= 0] for part in corpus.parts]))
        assert rows.tolist() == list(range(len(documents)))


def test_a_question_is_taken_apart() -> None:
    assert Query("在Jira里创建").words == ["在", "jira", "里", "创", "建"]
    query = Query("Read the FILE_name!")
    assert query.words == ["read", "the", "file", "name"]
    assert query.compact == "readthefilename"


def test_a_signal_that_does_not_answer_says_why_for_every_document() -> None:
    ranking = Ranking.no_answer(3, "no model")
    assert all(math.isnan(score) for score in ranking.scores)
    assert ranking.scores.shape == (3,)
    assert ranking.degraded == "no model"
