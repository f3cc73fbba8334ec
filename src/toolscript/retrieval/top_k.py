"""Finds the greatest of many values without sorting all of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 64
"""So many values, each as far from the next, are looked at as one."""
_HEAD = 8
"""This part of the first values is compared before the rest, most of which it rules out."""


def greatest(values: NDArray[np.floating[Any]], limit: int) -> NDArray[np.intp]:
    """Returns the places of the greatest ``values`` above 0, ``limit`` of them.

    Of equal ones the first; NaN counts as 0.
    """
    whole = values.size - values.size % _CHUNK
    maxima = values[:whole].reshape(_CHUNK, -1).max(axis=0)
    if np.isnan(maxima).any() or np.isnan(values[whole:]).any():  # of NaN and others
        return greatest(np.nan_to_num(values), limit)
    # So many chunks have a value at least that great.
    least = np.partition(maxima, -limit)[-limit] if maxima.size > limit else 0.0
    found = np.flatnonzero(values >= max(least, np.finfo(np.float32).tiny))
    if found.size > limit:
        found = found[np.argsort(-values[found], kind="stable")[:limit]]
    return found


def greatest_of_rows(values: NDArray[np.floating[Any]], limit: int) -> list[NDArray[np.intp]]:
    """Returns the places of the greatest values of each row, below 0 or not, ``limit`` of them.

    Args:
        values: [rows, n], without NaN.
        limit: How many are returned of each row at most, in any order.
    """
    if values.shape[1] <= limit:
        return [np.arange(values.shape[1])] * len(values)
    order: NDArray[np.intp] = np.argpartition(-values, limit, axis=1)[:, :limit]
    return [order[row] for row in range(len(order))]


class RunningGreatest:
    """Keeps the greatest of values that arrive in parts. Of equal values the first wins.

    Args:
        limit: How many are kept.
        least: Only greater values count.
    """

    __slots__ = ("_least", "_limit", "_parts", "_waiting")

    def __init__(self, limit: int, least: float = -np.inf) -> None:
        self._limit = limit
        self._least = least
        self._parts: list[tuple[NDArray[np.intp], NDArray[Any]]] = []
        """Places and values that may be among the greatest, ascending by place."""
        self._waiting = 0
        """How many were added since they were last compared."""

    def add(
        self, values: NDArray[Any], first: int = 0, mask: NDArray[np.bool_] | None = None
    ) -> None:
        """Takes the next part.

        Args:
            values: [n], without NaN.
            first: How many values came before.
            mask: Which of these count: bool [n]; None for all.
        """
        if not self._parts and values.size > _HEAD * self._limit:
            head = values.size // _HEAD
            self.add(values[:head], first, None if mask is None else mask[:head])
            values, first = values[head:], first + head
            mask = None if mask is None else mask[head:]
        counted = values > self._least
        found = np.flatnonzero(counted if mask is None else counted & mask)
        self._parts.append((found + first, values[found]))
        self._waiting += found.size
        if self._waiting >= self._limit:
            self._compare()

    def _compare(self) -> None:
        """Leaves only the greatest."""
        places, values = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        if values.size > self._limit:
            least = np.partition(values, -self._limit)[-self._limit]
            kept = np.flatnonzero(values > least)
            # What equals the last of them counts only where it comes first.
            equal = np.flatnonzero(values == least)[: self._limit - kept.size]
            kept = np.sort(np.append(kept, equal))
            places, values, self._least = places[kept], values[kept], least
        self._parts, self._waiting = [(places, values)], 0

    @property
    def places(self) -> NDArray[np.intp]:
        """Where they are among all values, the greatest first: [at most ``limit``]."""
        if not self._parts:
            return np.empty(0, np.intp)
        places, values = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        return places[np.argsort(-values, kind="stable")[: self._limit]]
