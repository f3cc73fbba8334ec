"""Searches a gateway's memory for the tools whose vectors are about the nearest to a question's.

Each gateway keeps the leading principal components of every tool's vector, one byte for each, and
cells of tools that are near each other. A search compares a third of these components for the tools
of the nearest cells, and all of them for the nearest by those. It takes less memory than a graph of
the vectors, and stays accurate where a caller may find only a few tools.
"""

import math
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.postgres.k_means import KMeans
from toolscript.postgres.reduced_vectors import (
    GREATEST,
    byte_kernels,
    component_bytes,
    question_bytes,
)
from toolscript.postgres.top_k import greatest_of_rows
from toolscript.retrieval.base import Mask, Rows
from toolscript.retrieval.lexical.analyzer import Numbers

Components = NDArray[np.int8]
DIMS, FIRST_DIMS = 192, 64
"""The number of components that are kept, and of those that are compared first."""
_ROOM = 8
"""For one tool more than there are of so many room is made."""
_CELL = 1024
"""About so many tools are in a cell."""
_SHARE = 0.15
"""About this share of the tools that count is compared with a question, those of the nearest cells.
Of a million tools 99 % of the 200 nearest are among these."""
_LEAST_CELLS = 150
"""At least so many cells are compared with a question, and fewer with a part of it: of few cells
the nearest ones miss more."""
_FEW = 16
"""Where less than one of so many tools counts, these are looked up one by one."""
_COMPARED = 8
"""About so many times as many as are returned are compared by all their components."""
_LEAST_COMPARED = 16
"""At least so many times as many as are returned are compared by the first components."""
SAMPLE = 37
"""One of so many tools tells how near they are, and how many of a cell's tools count. A prime:
servers may have 8 or 32 tools each."""
_MARGIN = 1.25
"""So many times as many as are wanted are expected to be near enough, so that seldom fewer are."""
_AT_ONCE = 32
"""The tools of so many cells are compared with the limits at once: their products stay in the
processor's cache."""
_LEAST = -DIMS * GREATEST**2
"""No product of components as bytes is less."""
_Near: TypeAlias = tuple[NDArray[np.signedinteger[Any]], NDArray[Any]]
"""The numbers of tools near a question, and their products with it by the first components."""


class _Cell(NamedTuple):
    """Tools that are near each other."""

    numbers: Numbers
    packed: Any
    """Their first components, in the order in which NumKong reads them."""


class _Cells(NamedTuple):
    """All tools that have been put, by cell."""

    division: KMeans
    """By their first components."""
    cells: list[_Cell]
    cell_of: Numbers
    """By a tool's number, its cell's; −1 where it has none."""
    known: Mask
    """By a tool's number, whether it has a vector."""


class NearestNeighbors:
    """The components of very many vectors. One thread puts them; any thread may compare.

    Args:
        axes: float32 [dim, components], orthonormal columns.
        size: For about how many tools room is made.
    """

    def __init__(self, axes: Vectors, size: int) -> None:
        self._axes = axes
        self._kernels = byte_kernels()
        size += size // _ROOM  # takes no memory until it is used
        self._first: Components = np.zeros((size, min(FIRST_DIMS, axes.shape[1])), np.int8)
        self._others: Components = np.zeros((size, axes.shape[1] - self._first.shape[1]), np.int8)
        self._waiting: deque[Numbers] = deque()
        self._settling = threading.Lock()
        self._size = self._divided = 0
        """How many tools are in cells, and were when the cells were made."""
        none = np.empty(0, np.int32)
        division = KMeans.none(self._first.shape[1])
        self._cells = _Cells(division, [], none, none.astype(np.bool_))

    def components_of(self, vectors: Vectors) -> Components:
        """Returns the components of some vectors: int8 [n, components].

        Args:
            vectors: float32 [n, dim], unit rows.
        """
        return component_bytes(vectors @ self._axes)

    def put(self, numbers: Sequence[int], components: Components) -> None:
        """Takes the components of some tools, given by their ``numbers``.

        The tools are found after `settle`.
        """
        size = max(numbers) + 1
        if size > len(self._first):
            added = (0, size + size // _ROOM - len(self._first)), (0, 0)
            self._others, self._first = np.pad(self._others, added), np.pad(self._first, added)
        count = self._first.shape[1]
        self._first[numbers], self._others[numbers] = components[:, :count], components[:, count:]
        self._waiting.append(np.array(numbers, np.int32))

    def settle(self) -> None:
        """Has the tools found that were put. Makes new cells where there are twice as many tools.

        Any thread may call. Searches go on in the cells of before.
        """
        with self._settling:
            waiting: list[Numbers] = []
            while self._waiting:
                waiting.append(self._waiting.popleft())
            if waiting:
                self._settle(np.unique(np.concatenate(waiting)))

    def _settle(self, put: Numbers) -> None:
        """Has the tools found that were put, given by their numbers."""
        division, cells, cell_of, known = self._cells
        added = 0, max(0, int(put[-1]) + 1 - cell_of.size)
        cell_of, known = np.pad(cell_of, added, constant_values=-1), np.pad(known, added)
        known[put] = self._first[put].any(axis=1) | self._others[put].any(axis=1)
        before = cell_of[put]
        self._size += int(np.count_nonzero(before < 0))
        if self._size > 2 * self._divided:
            self._divided, count = self._size, -(-self._size // _CELL)
            cell_of[put] = 0
            put = np.flatnonzero(cell_of >= 0).astype(np.int32)
            before = np.full(put.size, -1)
            cells = [_Cell(put[:0], None)] * count
            division, cell_of[put] = KMeans.fit(self._first[put], count)
        else:
            cell_of[put] = division.nearest(self._first[put])
        self._cells = _Cells(division, self._filled(cells, cell_of, put, before), cell_of, known)

    def _filled(
        self, cells: Sequence[_Cell], cell_of: Numbers, put: Numbers, before: NDArray[Any]
    ) -> list[_Cell]:
        """Returns the cells with the tools that were put.

        Args:
            cells: As they were.
            cell_of: By a tool's number, its cell's.
            put: The tools' numbers.
            before: The cells in which they were: −1 for none.
        """
        filled = list(cells)
        moved = put[before != cell_of[put]]
        moved = moved[np.argsort(cell_of[moved], kind="stable")]
        ends = np.cumsum(np.bincount(cell_of[moved], minlength=len(cells)))
        changed = np.unique(np.concatenate([before[before >= 0], cell_of[put]]))
        for cell in map(int, changed):
            kept = cells[cell].numbers[cell_of[cells[cell].numbers] == cell]
            more = moved[ends[cell - 1] if cell else 0 : ends[cell]]
            numbers = np.concatenate([kept, more])
            filled[cell] = _Cell(numbers, self._pack(self._first[numbers]))
        return filled

    def _pack(self, rows: Components) -> Any:
        """Returns some components as `_dot_products` takes them."""
        if self._kernels is None:
            return rows
        return self._kernels.dots_pack(np.ascontiguousarray(rows), dtype="int8")

    def _dot_products(self, questions: Components, packed: Any) -> NDArray[Any]:
        """Returns the dot product of each question with each of some rows: [questions, rows].

        Args:
            questions: int8 [questions, components].
            packed: The rows.
        """
        if self._kernels is None:
            return questions.astype(np.float32) @ packed.astype(np.float32).T
        return np.asarray(self._kernels.dots_packed(np.ascontiguousarray(questions), packed))

    def nearest(self, questions: Vectors, mask: Mask, limits: Sequence[int]) -> list[Rows]:
        """Returns the numbers of the tools that are nearest to each question, about so.

        Args:
            questions: float32 [questions, dim], unit rows.
            mask: By a tool's number, whether it counts.
            limits: How many are returned of each question at most. Of one with half the limit of
                another, half as many are compared.
        """
        cells = self._cells
        size = min(mask.size, cells.known.size)
        counted = np.zeros_like(cells.known)
        np.logical_and(mask[:size], cells.known[:size], out=counted[:size])
        asked, _ = question_bytes(questions @ self._axes)
        count = self._first.shape[1]
        visible = int(np.count_nonzero(counted))
        if not visible:
            return [np.empty(0, np.intp)] * len(questions)
        if visible * _FEW < counted.size:
            few = np.flatnonzero(counted)
            products = self._first_products(asked[:, :count], few)
            nearest = map(np.sort, greatest_of_rows(products, _COMPARED * max(limits)))
            found = [(few[rows], row[rows]) for row, rows in zip(products, nearest, strict=True)]
        else:
            chosen = self._nearest_cells(cells, asked[:, :count], counted, limits)
            wanted = [min(_COMPARED * limit, visible) for limit in limits]
            found = self._near(chosen, asked[:, :count], counted, wanted)
        others = asked[:, count:]
        return [self._best(*each) for each in zip(others, found, limits, strict=True)]

    def _best(self, question: Components, near: _Near, limit: int) -> Rows:
        """Returns those of some tools that are nearest to a question by all their components.

        Args:
            question: Its other components.
            near: The tools, and their products by the first components.
            limit: How many are returned.
        """
        numbers, products = near[0].astype(np.intp), near[1]
        if question.size:  # NumKong computes nothing of no components
            rows = self._pack(np.take(self._others, numbers, axis=0))
            products = products + self._dot_products(question[None], rows)[0]
        return numbers[np.argsort(-products, kind="stable")[:limit]]

    def _nearest_cells(
        self, known: _Cells, questions: Components, mask: Mask, limits: Sequence[int]
    ) -> list[_Cell]:
        """Returns the cells that are near any question, with enough tools that count for each."""
        counts = (
            np.bincount(known.cell_of[::SAMPLE][mask[::SAMPLE]], minlength=len(known.cells))
            * SAMPLE
        )
        least = max(_LEAST_COMPARED, _SHARE * counts.sum() / max(limits))
        nearest = np.argsort(-known.division.greatest_products(questions), axis=1)
        chosen = np.zeros(len(known.cells), np.bool_)
        for row, limit in zip(nearest, limits, strict=True):
            enough = int(np.searchsorted(np.cumsum(counts[row]), least * limit)) + 1
            fewest = _LEAST_CELLS * limit // max(limits)
            chosen[row[: max(enough, fewest)]] = True
            chosen[row[counts[row] > 0][:fewest]] = True  # where a grant has tools of few cells
        cells = (known.cells[cell] for cell in np.flatnonzero(chosen))
        return [cell for cell in cells if cell.numbers.size]  # where many tools are the same

    def _near(
        self, cells: Sequence[_Cell], questions: Components, mask: Mask, wanted: Sequence[int]
    ) -> list[_Near]:
        """Returns the tools of some cells that are near each question.

        Args:
            cells: Some of them have tools that count.
            questions: By their first components.
            mask: By a tool's number, whether it counts.
            wanted: About how many are returned of each question: half of that at least, where so
                many are there.
        """
        sample = np.concatenate([cell.numbers for cell in cells])[::SAMPLE]
        sampled = self._first_products(questions, sample[mask[sample]])
        margin = _MARGIN
        while True:
            ranks = [math.ceil(each * margin / SAMPLE) for each in wanted]
            limits = [
                np.partition(row, -rank)[-rank] if rank < row.size else _LEAST
                for row, rank in zip(sampled, ranks, strict=True)
            ]
            found = self._reaching(cells, questions, mask, limits)
            enough = all(
                numbers.size >= each // 2 for (numbers, _), each in zip(found, wanted, strict=True)
            )
            if enough or min(ranks) >= sampled.shape[1]:
                return found
            margin *= 4  # the sample told too little

    def _reaching(
        self,
        cells: Sequence[_Cell],
        questions: Components,
        mask: Mask,
        limits: Sequence[float],
    ) -> list[_Near]:
        """Returns the tools of some cells that count and reach the limit of each question."""
        found: list[list[_Near]] = [[] for _ in questions]
        for first in range(0, len(cells), _AT_ONCE):
            part = cells[first : first + _AT_ONCE]
            numbers = np.concatenate([cell.numbers for cell in part])
            products = np.concatenate(
                [self._dot_products(questions, cell.packed) for cell in part], axis=1
            )
            for near, row, limit in zip(found, products, limits, strict=True):
                reached = np.flatnonzero(row >= limit)
                near.append((numbers[reached], row[reached]))
        return [_counted(near, mask) for near in found]

    def _first_products(self, questions: Components, numbers: Rows | Numbers) -> NDArray[Any]:
        """Returns the products of questions with some tools by their first components."""
        return self._dot_products(questions, self._pack(np.take(self._first, numbers, axis=0)))

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


def _counted(near: Sequence[_Near], mask: Mask) -> _Near:
    """Returns those of some tools that count, ascending by number."""
    numbers, products = (np.concatenate(each) for each in zip(*near, strict=True))
    counted = np.flatnonzero(mask[numbers])
    counted = counted[np.argsort(numbers[counted])]
    return numbers[counted], products[counted]
