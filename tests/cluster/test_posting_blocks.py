"""Posting blocks hold what the lexical index computes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolscript.cluster.posting_blocks import (
    BLOCK,
    StemPostings,
    best,
    blocks_of,
    entries_of,
    sorted_entries,
)
from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.lexical.analyzer import Analyzer, Stemmer
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.types import Document

DOCUMENTS = [
    Document(id=f"s__t{n:03}", server="s", name=f"t{n:03}", description=text)
    for n, text in enumerate(
        f"{verb} the {noun} {noun if verb == 'reads' else verb}"
        for verb in ("reads", "writes", "lists", "moves")
        for noun in ("file", "folder", "branch", "commit", "page")
    )
]


def test_totals_of_blocks_are_the_scores_of_the_lexical_index() -> None:
    index = LexicalSignal().index(Corpus(DOCUMENTS))
    analyzer = Analyzer(Stemmer())
    tokens = analyzer.of(DOCUMENTS)
    half = len(tokens) // 2
    averages = index.statistics.averages
    first = entries_of(tokens[:half], analyzer.vocabulary, averages)
    stems, places, impacts = entries_of(tokens[half:], analyzer.vocabulary, averages)
    entries = sorted_entries([first, (stems, places + np.int32(half), impacts)])
    blocks = [(stem, tools, values) for stem, _, tools, values in blocks_of(entries)]
    postings = StemPostings(blocks, len(DOCUMENTS))
    for text in ("read a file", "move the branch and list commits", "t003"):
        terms = index.terms(Query(text))
        numbers = analyzer.vocabulary.stems
        rarity = index.statistics.rarity
        weights = {
            numbers[term.stem]: term.weight * float(rarity[numbers[term.stem]]) for term in terms
        }
        totals = postings.totals(weights)
        expected = [sum(index.impact(term, row) for term in terms) for row in range(len(DOCUMENTS))]
        assert np.allclose(totals, expected, rtol=1e-3)
        assert totals.any()


def test_a_long_list_is_cut_into_blocks_and_later_tools_are_added_once() -> None:
    size = 2 * BLOCK + 5
    tools = np.arange(size, dtype=np.int32)
    halves = np.full(size, -0.5, np.float16)
    blocks = list(blocks_of((np.zeros(size, np.int32), tools, halves)))
    assert [(stem, number) for stem, number, _, _ in blocks] == [(0, 0), (0, 1), (0, 2)]
    postings = StemPostings(
        [(stem, numbers, values) for stem, _, numbers, values in blocks], size + 1
    )
    postings.add({0: [(size - 1, 0.5), (size, 0.25), (size + 1, 0.75)]})
    totals = postings.totals({0: 2.0})
    assert totals.size == size + 1
    assert set(totals[:size].tolist()) == {1.0}
    assert totals[size] == 0.5


@given(st.lists(st.floats(0, 10, width=16), max_size=3000), st.integers(1, 40))
def test_the_best_are_the_greatest_visible_totals(values: list[float], limit: int) -> None:
    totals = np.array(values, np.float32)
    visible = np.arange(totals.size) % 3 != 0
    found = best(totals, limit, visible)
    seen = np.sort(totals[visible & (totals > 0)])[::-1]
    assert sorted(totals[found].tolist(), reverse=True) == seen[:limit].tolist()
    assert visible[found].all()
