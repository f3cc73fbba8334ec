"""Values that are cached up to a number of bytes."""

from toolscript.postgres.lru_cache import LruCache


def test_the_values_that_were_used_least_lately_are_evicted() -> None:
    cache: LruCache[int, bytes] = LruCache(30, len)
    cache.add_many({key: bytes(10) for key in (1, 2, 3)})
    assert cache.get_many([1, 9]) == {1: bytes(10)}
    cache.add_many({4: bytes(10)})
    assert cache.get_many([1, 2, 3, 4]).keys() == {1, 3, 4}
    cache.add_many({4: bytes(10), 5: bytes(20)})
    assert cache.get_many([1, 3, 4, 5]).keys() == {4, 5}, "what is cached takes no more room"


def test_a_value_that_is_too_large_is_not_cached() -> None:
    cache: LruCache[int, bytes] = LruCache(60, len)
    cache.add_many({1: bytes(12)})
    cache.add_many({2: bytes(66)})
    assert cache.get_many([1, 2]).keys() == {1}, "and nothing is evicted for it"
