"""Searches a gateway's memory for the tools whose vectors are about the nearest to a question's.

Each gateway keeps the leading principal components of every tool's vector, one byte for each. A
search compares half of these components for all tools, and all of them for the candidates. It takes
about as long as a search of a graph of the vectors, and stays accurate where a caller may find only
a few tools.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.retrieval.base import Mask, Rows
from toolscript.retrieval.lexical.analyzer import Numbers
from toolscript.retrieval.semantic.reduced_vectors import (
    GREATEST,
    byte_kernels,
    component_bytes,
    dot_products,
    question_bytes,
)
from toolscript.retrieval.top_k import RunningGreatest

_THREADS = min(4, os.cpu_count() or 1)
_POOL = ThreadPoolExecutor(_THREADS, "components")
"""Each search divides the vectors among these threads. NumKong releases the interpreter's lock as
it compares."""
Components = NDArray[np.int8]
DIMS, FIRST_DIMS = 192, 96
"""The number of components that are kept, and of those that are compared for all tools."""
_PART = 1 << 15
"""The number of tools that are compared at once: their products stay in the processor's cache."""
_FEW = 16
"""Where less than one of so many tools counts, these are looked up one by one."""


class NearestNeighbors:
    """The components of very many vectors. One thread puts them; any thread may compare.

    Args:
        axes: float32 [dim, components], orthonormal columns.
        size: For about how many tools room is made.
    """

    def __init__(self, axes: Vectors, size: int) -> None:
        self._axes = axes
        self._kernels = byte_kernels()
        self._first: Components = np.zeros((size, min(FIRST_DIMS, axes.shape[1])), np.int8)
        self._others: Components = np.zeros((size, axes.shape[1] - self._first.shape[1]), np.int8)

    def components_of(self, vectors: Vectors) -> Components:
        """Returns the components of some vectors: int8 [n, components].

        Args:
            vectors: float32 [n, dim], unit rows.
        """
        return component_bytes(vectors @ self._axes)

    def put(self, numbers: Numbers | Sequence[int], components: Components) -> None:
        """Takes the components of some tools, given by their ``numbers``."""
        size = int(np.max(numbers)) + 1
        if size > len(self._first):
            added = (0, size + size // 8 - len(self._first)), (0, 0)
            self._others, self._first = np.pad(self._others, added), np.pad(self._first, added)
        count = self._first.shape[1]
        self._first[numbers], self._others[numbers] = components[:, :count], components[:, count:]

    def nearest(self, questions: Vectors, mask: Mask, limit: int) -> list[Rows]:
        """Returns the numbers of the tools that are nearest to each question, about so.

        Args:
            questions: float32 [questions, dim], unit rows.
            mask: By a tool's number, whether it counts.
            limit: How many are returned of each question at most.
        """
        rows = self._first[: mask.size]
        mask = mask[: len(rows)]
        asked, _ = question_bytes(questions @ self._axes[:, : rows.shape[1]])
        few = None
        if np.count_nonzero(mask) * _FEW < mask.size:
            few = np.flatnonzero(mask)
            rows = rows[few]
        compare = partial(self._compared, rows, asked, None if few is not None else mask, limit)
        first, *others = _POOL.map(compare, _shares(len(rows)))
        for other in others:
            for best, later in zip(first, other, strict=True):
                best.merge(later)
        return [best.places if few is None else few[best.places] for best in first]

    def _compared(
        self,
        rows: Components,
        questions: Components,
        mask: Mask | None,
        limit: int,
        share: range,
    ) -> list[RunningGreatest]:
        """Returns the rows of a share that are nearest to each question."""
        found = [RunningGreatest(limit) for _ in questions]
        for first in share:
            part = slice(first, first + _PART)
            products = dot_products(rows[part], questions, self._kernels)
            for best, values in zip(found, products, strict=True):
                best.add(values, first, None if mask is None else mask[part])
        return found

    def products(self, questions: Vectors, numbers: Rows) -> Vectors:
        """Returns about the inner product of each question with some tools.

        Args:
            questions: float32 [questions, dim], unit rows.
            numbers: Of the tools.

        Returns:
            float32 [questions, tools], NaN where a tool has no vector.
        """
        found = self._components(numbers)
        asked = (questions @ self._axes / GREATEST).astype(np.float32)
        products: Vectors = asked @ found.T
        products[:, ~found.any(axis=1)] = np.nan
        return products

    def vectors_of(self, numbers: Rows) -> Vectors:
        """Returns about the vectors of some tools: float32 [tools, dim], unit rows, or zeros."""
        return unit_rows(self._components(numbers) @ self._axes.T)

    def _components(self, numbers: Rows) -> Vectors:
        """Returns the components of some tools, times 127: float32 [tools, components]."""
        first, others = self._first, self._others
        found = np.zeros((numbers.size, self._axes.shape[1]), np.float32)
        known = numbers < len(first)
        found[known] = np.hstack([first[numbers[known]], others[numbers[known]]])
        return found


def _shares(size: int) -> list[range]:
    """Returns the beginnings of the parts of ``size`` rows, divided among the threads."""
    starts = range(0, size, _PART)
    each = max(1, -(-len(starts) // _THREADS))
    return [starts[n : n + each] for n in range(0, len(starts), each)] or [starts]
