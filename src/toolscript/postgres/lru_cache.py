"""A thread-safe LRU cache that is limited by size in bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Evicts the least recently used value first.

    A key keeps its value: a value that has changed needs another key.

    Args:
        max_bytes: How much memory the values may take. A larger value is not cached.
        size_of: Returns how many bytes a value takes, its place in the cache included.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._bytes = 0

    def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Returns the values of those keys that are cached."""
        with self._lock:
            cached = {key: self._values[key] for key in keys if key in self._values}
            for key in cached:
                self._values.move_to_end(key)
            return cached

    def add_many(self, values: Mapping[K, V]) -> None:
        """Adds values of new keys, and evicts others where all would take too much memory."""
        with self._lock:
            for key, value in values.items():
                size = self._size_of(value)
                if key not in self._values and size <= self._max_bytes:
                    self._values[key] = value
                    self._bytes += size
            while self._bytes > self._max_bytes:
                _, evicted = self._values.popitem(last=False)
                self._bytes -= self._size_of(evicted)
