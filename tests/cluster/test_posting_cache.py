"""Posting lists that are kept for later searches."""

import numpy as np

from toolscript.cluster.posting_blocks import PostingList
from toolscript.cluster.posting_cache import PostingCache


def postings(size: int) -> PostingList:
    return PostingList.of(np.arange(size, dtype=np.int32), np.ones(size, np.float16))


def test_the_lists_that_were_used_least_lately_are_dropped() -> None:
    cache = PostingCache(max_bytes=3 * postings(10).nbytes)
    cache.add((1, 5), {stem: postings(10) for stem in (1, 2, 3)})
    assert cache.found((1, 5), [1, 9]).keys() == {1}
    cache.add((1, 5), {4: postings(10)})
    assert cache.found((1, 5), [1, 2, 3, 4]).keys() == {1, 3, 4}


def test_a_list_that_is_too_long_is_not_kept() -> None:
    cache = PostingCache(max_bytes=60)
    cache.add((1, 5), {1: postings(2)})
    cache.add((1, 5), {2: postings(11)})
    assert cache.found((1, 5), [1, 2]).keys() == {1}, "and nothing is dropped for it"


def test_a_fold_makes_the_lists_stale() -> None:
    cache = PostingCache()
    cache.add((1, 5), {1: postings(3)})
    assert not cache.found((1, 6), [1])
    cache.add((1, 6), {2: postings(4)})
    cache.add((1, 5), {3: postings(3)})  # by a search that began before the fold
    assert cache.found((1, 6), [1, 2, 3]).keys() == {2}
    assert not cache.found((1, 5), [1, 2, 3])
    cache.add((2, 0), {5: postings(1)})  # another index
    assert cache.found((2, 0), [2, 5]).keys() == {5}
