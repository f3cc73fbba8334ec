"""Holds the words of very many tools in posting blocks: plain rows of PostgreSQL.

A block is a row with up to `BLOCK` tools that have a stem, and each one's impact: what the stem
adds to the tool's BM25F score before the stem's rarity, which is a matter of the question. So a
new tool changes no block of another one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Mask
from toolscript.retrieval.lexical.analyzer import Numbers, TokenIds, Vocabulary
from toolscript.retrieval.lexical.bm25f import field_scales, saturated_frequency
from toolscript.retrieval.lexical.postings import NAME, Postings, differs
from toolscript.retrieval.top_k import greatest

BLOCK = 8192

Impacts = NDArray[np.float16]
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


class StemPostings:
    """The tools of some stems with their impacts, read from blocks and from later changes."""

    def __init__(self, blocks: Iterable[tuple[int, bytes, bytes]], size: int) -> None:
        found: dict[int, list[tuple[Numbers, Vectors]]] = {}
        for stem, tools, impacts in blocks:
            numbers = np.frombuffer(tools, "<i4")
            known = int(np.searchsorted(numbers, size))  # later ones are not known here yet
            values = np.abs(np.frombuffer(impacts, "<f2")[:known].astype(np.float32))
            found.setdefault(stem, []).append((numbers[:known], values))
        self._found = found
        self._size = size

    def add(self, later: Mapping[int, Sequence[tuple[int, float]]]) -> None:
        """Adds the entries of changed tools, by stem; those that a block has already are left."""
        for stem, entries in later.items():
            parts = self._found.setdefault(stem, [])
            known = [each[0] for each in parts if each[0].size]
            last = max((int(numbers[-1]) for numbers in known), default=-1)
            new = [(tool, value) for tool, value in entries if last < tool < self._size]
            if new:
                tools, values = zip(*new, strict=True)
                parts.append((np.array(tools, np.int32), np.array(values, np.float32)))

    def totals(self, weights: Mapping[int, float]) -> Vectors:
        """Returns the sum of weighted impacts of every tool: float32 [size].

        Args:
            weights: By stem, what its impacts are multiplied with.
        """
        totals = np.zeros(self._size, np.float32)
        for stem, weight in weights.items():
            for tools, impacts in self._found.get(stem, ()):
                totals[tools] += np.float32(weight) * impacts
        return totals


def best(totals: Vectors, limit: int, visible: Mask) -> Numbers:
    """Returns the ``visible`` tools with the greatest totals above 0, ``limit`` of them."""
    return greatest(totals * visible, limit).astype(np.int32)
