"""Holds the words of very many tools in posting blocks: plain rows of PostgreSQL.

A block is a row with up to `BLOCK` tools that have a stem, and each one's impact: what the stem
adds to the tool's BM25F score before it is weighted by the stem's rarity, which a search knows. So
a new tool changes nothing of what is stored of the others.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.postgres.top_k import greatest
from toolscript.retrieval.base import Mask, Rows
from toolscript.retrieval.lexical.analyzer import Numbers, TokenIds, Vocabulary
from toolscript.retrieval.lexical.bm25f import field_scales, saturated_frequency
from toolscript.retrieval.lexical.postings import NAME, Postings, differs

BLOCK = 8192

Impacts = NDArray[np.float16]
Weights = Mapping[int, float]
"""By stem, what an impact is multiplied with."""
Entries = tuple[Numbers, Numbers, Impacts]
"""Stems, tools and impacts; an impact is negative where the tool's name has the stem."""


def entries_of(
    documents: Sequence[TokenIds], vocabulary: Vocabulary, averages: NDArray[np.float64]
) -> Entries:
    """Returns the entries of some tools, ascending by stem and by place.

    Args:
        documents: The words of each tool; its place here stands for it.
        vocabulary: What the words' numbers mean.
        averages: The mean length of each field: float64 [fields].
    """
    postings = Postings(list(documents), vocabulary)
    firsts = np.flatnonzero(differs(postings.stems) | differs(postings.places))
    if not firsts.size:
        none = np.empty(0, np.int32)
        return none, none, np.empty(0, np.float16)
    scales = field_scales(postings.lengths, averages)
    counted = postings.counts * scales[postings.places, postings.fields]
    impacts = saturated_frequency(np.add.reduceat(counted, firsts)).astype(np.float16)
    impacts[postings.fields[firsts] == NAME] *= -1
    return postings.stems[firsts].astype(np.int32), postings.places[firsts], impacts


def blocks_of(entries: Entries) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yields the blocks of entries: stem, number of the block, tools and impacts as bytes.

    The entries are ascending by stem, and by tool.
    """
    stems, tools, impacts = entries
    starts = np.flatnonzero(differs(stems))
    ends = np.append(starts[1:], stems.size)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        for number, first in enumerate(range(start, end, BLOCK)):
            block = slice(first, min(first + BLOCK, end))
            yield (
                int(stems[start]),
                number,
                tools[block].astype("<i4").tobytes(),
                impacts[block].astype("<f2").tobytes(),
            )


def sorted_entries(parts: Iterable[Entries]) -> Entries:
    """Returns the entries of several parts as one, ascending by stem and by tool.

    Args:
        parts: Each ascending by stem and by tool, with greater tools than the part before.
    """
    stems, tools, impacts = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(stems, kind="stable")
    return stems[order], tools[order], impacts[order]


@dataclass(frozen=True, slots=True)
class PostingList:
    """The tools that have a stem, ascending, and what it adds to each."""

    tools: Numbers
    impacts: Vectors

    @classmethod
    def of(cls, tools: Numbers, impacts: Impacts | Vectors) -> "PostingList":
        """Returns the list of some tools, ascending; an impact counts without its sign."""
        return cls(tools, np.abs(impacts).astype(np.float32))  # float16 is slow to compute with

    @classmethod
    def joined(cls, blocks: Iterable[tuple[bytes, bytes]]) -> "PostingList":
        """Returns the list of some blocks: tools and impacts as bytes."""
        parts = [(np.frombuffer(tools, "<i4"), impacts) for tools, impacts in blocks]
        parts = sorted((part for part in parts if part[0].size), key=lambda part: int(part[0][0]))
        tools = np.concatenate([np.empty(0, np.int32), *(part[0] for part in parts)])
        return cls.of(tools, np.frombuffer(b"".join(part[1] for part in parts), "<f2"))

    @property
    def nbytes(self) -> int:
        """How much memory the list takes."""
        return self.tools.nbytes + self.impacts.nbytes

    def with_later(self, later: Sequence[tuple[int, float]], size: int) -> "PostingList":
        """Returns the list with the entries of changed tools, and with numbers below ``size``.

        Args:
            later: Tools and impacts, ascending; those that the list has already are left.
            size: Tools with this number and greater ones are not known yet.
        """
        last = int(self.tools[-1]) if self.tools.size else -1
        new = [(tool, value) for tool, value in later if last < tool < size]
        if new:
            tools = np.array([tool for tool, _ in new], np.int32)
            impacts = np.array([value for _, value in new], np.float32)
            return self.of(
                np.concatenate([self.tools, tools]), np.concatenate([self.impacts, impacts])
            )
        if last < size:
            return self
        known = int(np.searchsorted(self.tools, np.int32(size)))
        return PostingList(self.tools[:known], self.impacts[:known])

    def impacts_on(self, tools: Rows) -> Vectors:
        """Returns the impact on each of some tools, 0 if it has not got the stem: float32."""
        # Keys of another type would have the whole list converted.
        places = np.searchsorted(self.tools, tools.astype(np.int32))
        places[places == self.tools.size] = 0
        return np.where(self.tools[places] == tools, self.impacts[places], np.float32(0))


def best_tools(
    postings: Mapping[int, PostingList],
    queries: Sequence[Weights],
    masks: Sequence[Mask],
    limit: int,
) -> list[Rows]:
    """Returns the tools with the greatest weighted sums of impacts, a list for each query and mask.

    Of equal ones the first. A list is in any order.

    Args:
        postings: The lists of the queries' stems.
        queries: What the impacts on each list are multiplied with.
        masks: By a tool's number, whether it counts: bool [n] each.
        limit: How many tools are returned at most; all have a sum above 0.
    """
    found: list[Rows] = []
    counted = [None if mask.all() else np.flatnonzero(mask) for mask in masks]
    sums = np.empty(masks[0].size, np.float32)
    for weights in queries:
        sums.fill(0)
        for stem, weight in weights.items():
            if stem in postings:
                each = postings[stem]
                np.add.at(sums, each.tools, np.float32(weight) * each.impacts)
        found += [
            greatest(sums, limit) if rows is None else rows[greatest(sums[rows], limit)]
            for rows in counted
        ]
    return found
