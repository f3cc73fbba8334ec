"""Posting blocks hold what the lexical index computes."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolscript.postgres.posting_blocks import (
    BLOCK,
    PostingList,
    best_tools,
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


def test_sums_of_impacts_are_the_scores_of_the_lexical_index() -> None:
    index = LexicalSignal().index(Corpus(DOCUMENTS))
    analyzer = Analyzer(Stemmer())
    tokens = analyzer.of(DOCUMENTS)
    half = len(tokens) // 2
    averages = index.statistics.averages
    first = entries_of(tokens[:half], analyzer.vocabulary, averages)
    stems, places, impacts = entries_of(tokens[half:], analyzer.vocabulary, averages)
    entries = sorted_entries([first, (stems, places + np.int32(half), impacts)])
    blocks: dict[int, list[tuple[bytes, bytes]]] = {}
    for stem, _, tools, values in blocks_of(entries):
        blocks.setdefault(stem, []).append((tools, values))
    postings = {stem: PostingList.joined(each) for stem, each in blocks.items()}
    everything = np.arange(len(DOCUMENTS))
    for text in ("read a file", "move the branch and list commits", "t003"):
        terms = index.terms(Query(text))
        numbers = analyzer.vocabulary.stems
        rarity = index.statistics.rarity
        weights = {
            numbers[term.stem]: term.weight * float(rarity[numbers[term.stem]]) for term in terms
        }
        totals = np.zeros(len(DOCUMENTS))
        for stem, weight in weights.items():
            totals += weight * postings[stem].impacts_on(everything)
        expected = [sum(index.impact(term, row) for term in terms) for row in range(len(DOCUMENTS))]
        assert np.allclose(totals, expected, rtol=1e-3)
        assert totals.any()


def test_a_long_list_is_cut_into_blocks_and_later_tools_are_added_once() -> None:
    size = 2 * BLOCK + 5
    tools = np.arange(size, dtype=np.int32)
    halves = np.full(size, -0.5, np.float16)
    blocks = list(blocks_of((np.zeros(size, np.int32), tools, halves)))
    assert [(stem, number) for stem, number, _, _ in blocks] == [(0, 0), (0, 1), (0, 2)]
    postings = PostingList.joined((numbers, values) for _, _, numbers, values in reversed(blocks))
    assert postings.tools.tolist() == tools.tolist()
    assert (postings.impacts == 0.5).all()
    later = [(size - 1, 0.5), (size, 0.75), (size + 1, 1.0)]
    known = postings.with_later(later, size + 1)
    assert known.tools.tolist() == [*tools.tolist(), size]
    assert known.impacts_on(np.array([0, size, size + 1])).tolist() == [0.5, 0.75, 0.0]
    assert postings.with_later([], 7).tools.tolist() == list(range(7))


def test_no_tool_has_a_stem_without_blocks() -> None:
    postings = PostingList.joined([])
    assert not postings.tools.size
    assert postings.with_later([(3, 0.5)], 4).tools.tolist() == [3]
    assert best_tools({1: postings}, [{1: 1.0}], [np.ones(4, np.bool_)], 5)[0].size == 0


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.floats(0.0005, 1), min_size=1, max_size=6),
    st.integers(1, 300),
)
def test_the_best_are_the_greatest_visible_sums(seed: int, shares: list[float], limit: int) -> None:
    """The first of those that are alike."""
    chance = np.random.default_rng(seed)
    masks = [chance.random(3000) < share for share in (1.1, 0.9, 0.02)]
    postings: dict[int, PostingList] = {}
    queries: list[dict[int, float]] = [{}, {}]
    sums = np.zeros((2, 3000), np.float32)
    for stem, share in enumerate(shares):
        tools = np.flatnonzero(chance.random(3000) < share).astype(np.int32)
        impacts = chance.choice([0.25, 0.5, 1], tools.size).astype(np.float16)
        postings[stem] = PostingList.of(tools, impacts)
        weight = round(math.log(1 + 1 / share), 1)
        for query in (0, 1) if stem % 2 else (0,):
            queries[query][stem] = weight
            sums[query, tools] += np.float32(weight) * impacts.astype(np.float32)
    found = best_tools(postings, queries, masks, limit)
    expected = [row * mask for row in sums for mask in masks]
    for rows, row in zip(found, expected, strict=True):
        order = np.argsort(-row, kind="stable")[: min(limit, np.count_nonzero(row))]
        assert sorted(rows) == sorted(order)
