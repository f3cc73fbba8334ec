"""Keeps recently read posting lists in memory, so that those of frequent words are read once."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from toolscript.cluster.posting_blocks import PostingList
from toolscript.cluster.resident_index import Folds

MAX_BYTES = 64 << 20


class PostingCache:
    """The lists of one state of an index's blocks, least recently used out first. Any thread.

    Args:
        max_bytes: How much memory the lists may take. A longer list is not kept.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._folds: Folds = (0, 0)
        self._lists: OrderedDict[int, PostingList] = OrderedDict()
        self._bytes = 0

    def found(self, folds: Folds, stems: Iterable[int]) -> dict[int, PostingList]:
        """Returns the lists of those stems that are known."""
        with self._lock:
            if folds != self._folds:
                return {}
            known = {stem: self._lists[stem] for stem in stems if stem in self._lists}
            for stem in known:
                self._lists.move_to_end(stem)
            return known

    def add(self, folds: Folds, lists: Mapping[int, PostingList]) -> None:
        """Adds lists that were read when the index was as ``folds`` says, or after that."""
        with self._lock:
            if folds < self._folds:
                return
            if folds > self._folds:
                self._folds, self._bytes = folds, 0
                self._lists.clear()
            for stem, postings in lists.items():
                if stem not in self._lists and postings.nbytes <= self._max_bytes:
                    self._lists[stem] = postings
                    self._bytes += postings.nbytes
            while self._bytes > self._max_bytes:
                _, dropped = self._lists.popitem(last=False)
                self._bytes -= dropped.nbytes
