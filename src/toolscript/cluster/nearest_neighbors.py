"""Searches a gateway's memory for the tools whose vectors are about the nearest to a question's.

Each gateway keeps the leading principal components of every tool's vector, one byte for each. A
search compares a third of these components for all tools, and all of them for the nearest by those.
It takes less time than a search of a graph of the vectors, and stays accurate where a caller may
find only a few tools.
"""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.retrieval.base import Mask, Rows
from toolscript.retrieval.lexical.analyzer import Numbers
from toolscript.retrieval.semantic.reduced_vectors import (
    GREATEST,
    byte_kernels,
    component_bytes,
    question_bytes,
)
from toolscript.retrieval.top_k import RunningGreatest, greatest_of_rows

_THREADS = min(4, os.cpu_count() or 1)
_POOL = ThreadPoolExecutor(_THREADS, "components")
"""Each search divides the vectors among these threads. NumKong releases the interpreter's lock as
it compares."""
Components = NDArray[np.int8]
DIMS, FIRST_DIMS = 192, 64
"""The number of components that are kept, and of those that are compared for all tools."""
_PART = 1 << 15
"""The number of tools that are compared at once: their products stay in the processor's cache."""
_FEW = 16
"""Where less than one of so many tools counts, these are looked up one by one."""
_COMPARED = 8
"""About so many times as many as are returned are compared by all their components."""
SAMPLE = 37
"""One of so many tools tells how near those are. A prime: servers may have 8 or 32 tools each."""
_MARGIN = 1.25
"""So many times as many as are wanted are expected to be near enough, so that seldom fewer are."""
_LEAST = -DIMS * GREATEST**2
"""No product of components as bytes is less."""
_Near: TypeAlias = tuple[Rows, NDArray[Any]]
"""The numbers of tools near a question, and their products with it by the first components."""


class _Packed(NamedTuple):
    """The first components of all tools, in the order in which NumKong reads them."""

    parts: list[Any]
    """Of `_PART` tools each."""
    sample: Any
    """Of one in `SAMPLE` tools."""
    known: Mask
    """By a tool's number, whether it has a vector; as many numbers as the parts have room for."""


class NearestNeighbors:
    """The components of very many vectors. One thread puts them; any thread may compare.

    Args:
        axes: float32 [dim, components], orthonormal columns.
        size: For about how many tools room is made.
    """

    def __init__(self, axes: Vectors, size: int) -> None:
        self._axes = axes
        self._kernels = byte_kernels()
        size = _whole_parts(size)
        self._first: Components = np.zeros((size, min(FIRST_DIMS, axes.shape[1])), np.int8)
        self._others: Components = np.zeros((size, axes.shape[1] - self._first.shape[1]), np.int8)
        self._packed = _Packed([], self._pack(self._first[:0]), np.zeros(0, np.bool_))

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
            added = (0, _whole_parts(size + size // 8) - len(self._first)), (0, 0)
            self._others, self._first = np.pad(self._others, added), np.pad(self._first, added)
        count = self._first.shape[1]
        self._first[numbers], self._others[numbers] = components[:, :count], components[:, count:]
        packed, _, known = self._packed
        packed = packed[:]
        changed = np.unique(np.asarray(numbers) // _PART).tolist()
        for part in chain(range(len(packed), changed[-1]), changed):
            rows = self._first[part * _PART : (part + 1) * _PART]
            packed[part : part + 1] = [self._pack(rows)]
        size = len(packed) * _PART
        known = np.pad(known, (0, size - known.size))
        known[numbers] = components.any(axis=1)
        # Replaced as one: searches go on in other threads.
        self._packed = _Packed(packed, self._pack(self._first[:size:SAMPLE]), known)

    def _pack(self, rows: Components) -> Any:
        """Returns some components as `_dot_products` takes them."""
        if self._kernels is None:
            return rows.copy()  # a view would keep what is outgrown
        return self._kernels.dots_pack(np.ascontiguousarray(rows), dtype="int8")

    def _dot_products(self, questions: Components, packed: Any, room: Any = None) -> Vectors:
        """Returns the dot product of each question with each of some rows: [questions, rows].

        Args:
            questions: int8 [questions, components].
            packed: The rows.
            room: Takes the products, where there is one: a tensor of NumKong's.
        """
        if self._kernels is None:
            return questions.astype(np.float32) @ packed.astype(np.float32).T
        questions = np.ascontiguousarray(questions)
        return np.asarray(self._kernels.dots_packed(questions, packed, out=room))

    def nearest(self, questions: Vectors, mask: Mask, limit: int) -> list[Rows]:
        """Returns the numbers of the tools that are nearest to each question, about so.

        Args:
            questions: float32 [questions, dim], unit rows.
            mask: By a tool's number, whether it counts.
            limit: How many are returned of each question at most.
        """
        packed = self._packed
        size = min(mask.size, packed.known.size)
        mask = mask[:size] & packed.known[:size]
        asked, _ = question_bytes(questions @ self._axes)
        count = self._first.shape[1]
        visible = int(np.count_nonzero(mask))
        if not visible:
            return [np.empty(0, np.intp)] * len(questions)
        if visible * _FEW < mask.size:
            few = np.flatnonzero(mask)
            rows = self._pack(np.take(self._first, few, axis=0))
            products = self._dot_products(asked[:, :count], rows)
            nearest = map(np.sort, greatest_of_rows(products, _COMPARED * limit))
            found = [(few[rows], row[rows]) for row, rows in zip(products, nearest, strict=True)]
        else:
            wanted = min(_COMPARED * limit, visible)
            found = self._near(packed, asked[:, :count], mask, wanted)
        others = asked[:, count:]
        return [self._best(*each, limit) for each in zip(others, found, strict=True)]

    def _best(self, question: Components, near: _Near, limit: int) -> Rows:
        """Returns those of some tools that are nearest to a question by all their components.

        Args:
            question: Its other components.
            near: The tools, and their products by the first components.
            limit: How many are returned.
        """
        numbers, products = near
        if question.size:  # NumKong computes nothing of no components
            rows = self._pack(np.take(self._others, numbers, axis=0))
            products = products + self._dot_products(question[None], rows)[0]
        best = RunningGreatest(limit)
        best.add(products)
        return numbers[best.places]

    def _near(self, packed: _Packed, questions: Components, mask: Mask, wanted: int) -> list[_Near]:
        """Returns about ``wanted`` tools for each question, and at least half of these."""
        sampled = self._dot_products(questions, packed.sample)
        sampled = sampled[:, : -(-mask.size // SAMPLE)][:, mask[::SAMPLE]]
        expected = wanted * _MARGIN
        while True:
            rank = math.ceil(expected / SAMPLE)
            limits = np.full(len(questions), _LEAST, sampled.dtype)
            if rank < sampled.shape[1]:
                limits = np.partition(sampled, -rank, axis=1)[:, -rank]
            compare = partial(self._compared, packed, questions, mask, limits)
            shares = _shares(-(-mask.size // _PART))
            parts = chain.from_iterable(_POOL.map(compare, shares))
            found = [
                (np.concatenate(numbers), np.concatenate(products))
                for numbers, products in (
                    zip(*each, strict=True) for each in zip(*parts, strict=True)
                )
            ]
            enough = all(numbers.size >= wanted // 2 for numbers, _ in found)
            if enough or rank >= sampled.shape[1]:
                return found
            expected *= 4  # the sample told too little

    def _compared(
        self,
        packed: _Packed,
        questions: Components,
        mask: Mask,
        limits: NDArray[Any],
        share: range,
    ) -> list[list[_Near]]:
        """Returns, for each part of a share, the tools that reach each question's limit."""
        found: list[list[_Near]] = []
        room = self._kernels and self._kernels.zeros((len(questions), _PART), dtype="int32")
        for part in share:
            counted = mask[part * _PART : (part + 1) * _PART]
            products = self._dot_products(questions, packed.parts[part], room)[:, : counted.size]
            reached = (products >= limits[:, None]) & counted
            rows = [np.flatnonzero(row) for row in reached]
            found.append(
                [(each + part * _PART, row[each]) for each, row in zip(rows, products, strict=True)]
            )
        return found

    def products(self, questions: Vectors, numbers: Rows) -> Vectors:
        """Returns about the inner product of each question with some tools.

        Args:
            questions: float32 [questions, dim], unit rows.
            numbers: Of the tools.

        Returns:
            float32 [questions, tools], NaN where a tool has no vector.
        """
        found = self._components(numbers).astype(np.float32)
        asked = (questions @ self._axes / GREATEST).astype(np.float32)
        products: Vectors = asked @ found.T
        products[:, ~found.any(axis=1)] = np.nan
        return products

    def vectors_of(self, numbers: Rows) -> Vectors:
        """Returns about the vectors of some tools: float32 [tools, dim], unit rows, or zeros."""
        return unit_rows(self._components(numbers) @ self._axes.T)

    def _components(self, numbers: Rows) -> Components:
        """Returns the components of some tools, times 127: int8 [tools, components]."""
        first, others = self._first, self._others
        found = np.zeros((numbers.size, self._axes.shape[1]), np.int8)
        known = numbers < len(first)
        found[known] = np.hstack([first[numbers[known]], others[numbers[known]]])
        return found


def _whole_parts(size: int) -> int:
    """Returns how many tools the parts have that hold ``size`` of them."""
    return -(-size // _PART) * _PART


def _shares(parts: int) -> list[range]:
    """Returns so many parts, divided among the threads."""
    each = max(1, -(-parts // _THREADS))
    return [range(n, min(parts, n + each)) for n in range(0, parts, each)] or [range(0)]
