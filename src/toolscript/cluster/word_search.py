"""Finds the tools of an index in PostgreSQL whose words match queries best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolscript.cluster.database import Database
from toolscript.cluster.posting_blocks import PostingList, Weights, best_tools
from toolscript.cluster.posting_cache import PostingCache
from toolscript.cluster.resident_index import Snapshot
from toolscript.embedding.base import Vectors
from toolscript.errors import DatabaseUnavailableError
from toolscript.retrieval.base import Mask, Rows

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
    """Reads posting lists from the database, and adds them up. Any event loop may ask.

    Args:
        database: Where the lists are.
        listed: How many of the best are listed.
    """

    def __init__(self, database: Database, listed: int) -> None:
        self._database = database
        self._listed = listed
        self._known = PostingCache()

    async def read(
        self, snapshot: Snapshot, queries: Sequence[Weights]
    ) -> tuple[dict[int, PostingList], str]:
        """Returns the lists of the queries' stems, as of the last fold.

        While the database does not answer, those that were read lately, and why.
        """
        stems = {stem for weights in queries for stem in weights}
        try:
            return await self._read(snapshot, stems), ""
        except DatabaseUnavailableError as error:
            return self._known.found(snapshot.folds, stems), str(error)

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

    async def _read(self, snapshot: Snapshot, stems: set[int]) -> dict[int, PostingList]:
        """Returns the posting lists of some stems, without what has changed since the last fold."""
        index, _ = snapshot.folds
        found = self._known.found(snapshot.folds, stems)
        missing = sorted(stems - found.keys())
        if missing and index:
            blocks: dict[int, list[tuple[bytes, bytes]]] = {stem: [] for stem in missing}
            rows = await self._database.arun(
                lambda connection: connection.fetch(_BLOCKS, index, missing)
            )
            for stem, *block in rows:
                blocks[stem].append(tuple(block))
            read = {stem: PostingList.joined(each) for stem, each in blocks.items()}
            self._known.add(snapshot.folds, read)
            found |= read
        return found
