"""Values of the database that are kept in memory."""

from toolscript.cluster.lru_cache import LruCache


def test_the_values_that_were_used_least_lately_are_dropped() -> None:
    cache: LruCache[int, bytes] = LruCache(30, len)
    cache.add({key: bytes(10) for key in (1, 2, 3)})
    assert cache.found([1, 9]) == {1: bytes(10)}
    cache.add({4: bytes(10)})
    assert cache.found([1, 2, 3, 4]).keys() == {1, 3, 4}
    cache.add({4: bytes(10), 5: bytes(20)})
    assert cache.found([1, 3, 4, 5]).keys() == {4, 5}, "what is known already takes no more room"


def test_a_value_that_is_too_large_is_not_kept() -> None:
    cache: LruCache[int, bytes] = LruCache(60, len)
    cache.add({1: bytes(12)})
    cache.add({2: bytes(66)})
    assert cache.found([1, 2]).keys() == {1}, "and nothing is dropped for it"
