"""Ranks tools by their words, with posting lists that PostgreSQL stores and a gateway caches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.database import READ_TIMEOUT_S, Database
from toolscript.postgres.lru_cache import LruCache
from toolscript.postgres.posting_blocks import PostingList, Weights, best_tools
from toolscript.postgres.resident_index import Folds, Snapshot
from toolscript.retrieval.base import Mask, Rows

POSTING_CACHE_BYTES = 64 << 20
"""How much memory the cached lists may take. Those of frequent words are long to read."""
_LIST_BYTES = 450
"""About how much a list takes besides its arrays' values."""
_BLOCKS = """
select stem, tools, impacts from toolscript.candidate_posting
where index_id = $1 and stem = any($2)
"""


@dataclass(frozen=True, slots=True)
class WordLists:
    """The tools with the words of some queries."""

    postings: dict[int, PostingList]
    """By stem, the tools that have it."""
    weights: Sequence[Weights]
    """By query, those of its stems."""
    lists: list[Rows]
    """The numbers of the tools with the greatest sums, a list for each query and mask."""

    def sums(self, numbers: Rows) -> Vectors:
        """Returns the weighted sums of the impacts on some tools: float32 [queries, numbers]."""
        sums = np.zeros((len(self.weights), numbers.size), np.float32)
        for stem, postings in self.postings.items():
            impacts = postings.impacts_on(numbers)
            for query, weights in enumerate(self.weights):
                if stem in weights:
                    sums[query] += np.float32(weights[stem]) * impacts
        return sums


class WordSearch:
    """Reads posting lists from the database, and adds them up. Any thread may ask.

    Args:
        database: Where the lists are.
        listed: How many of the best are listed.
    """

    def __init__(self, database: Database, listed: int) -> None:
        self._database = database
        self._listed = listed
        self._cache: LruCache[tuple[int, Folds, int], PostingList] = LruCache(
            POSTING_CACHE_BYTES, _size_of
        )

    def read(
        self, snapshot: Snapshot, queries: Sequence[Weights], problem: str = ""
    ) -> tuple[dict[int, PostingList], str]:
        """Returns the lists of the queries' stems, as of the last fold.

        Blocks for `READ_TIMEOUT_S` at most. While the database does not answer, returns the lists
        that are cached, and why.

        Args:
            snapshot: The index as of one position.
            queries: The weights of their stems.
            problem: Why the database is not asked; empty to ask it.
        """
        stems = sorted({stem for weights in queries for stem in weights})
        folds = snapshot.folds
        keys = {stem: (snapshot.generation, folds, stem) for stem in stems}
        cached = self._cache.get_many(keys.values())
        found = {stem: postings for (*_, stem), postings in cached.items()}
        missing = [stem for stem in stems if stem not in found]
        index, _ = folds
        if problem or not missing or not index:
            return found, problem
        try:
            rows = self._database.run(
                lambda connection: connection.fetch(_BLOCKS, index, missing), READ_TIMEOUT_S
            )
        except DatabaseUnavailableError as error:
            return found, str(error)
        blocks: dict[int, list[tuple[bytes, bytes]]] = {stem: [] for stem in missing}
        for stem, *block in rows:
            blocks[stem].append(tuple(block))
        read = {stem: PostingList.joined(each) for stem, each in blocks.items()}
        self._cache.add_many({keys[stem]: postings for stem, postings in read.items()})
        return found | read, ""

    def best(
        self,
        snapshot: Snapshot,
        postings: Mapping[int, PostingList],
        queries: Sequence[Weights],
        masks: Sequence[Mask],
    ) -> WordLists:
        """Returns the tools of each mask that have the best words of each query."""
        size, later = snapshot.alive.size, snapshot.later
        known = {
            stem: each.with_later(later.get(stem, ()), size) for stem, each in postings.items()
        }
        known = {stem: each for stem, each in known.items() if each.tools.size}
        return WordLists(known, queries, best_tools(known, queries, masks, self._listed))


def _size_of(postings: PostingList) -> int:
    return _LIST_BYTES + postings.nbytes
