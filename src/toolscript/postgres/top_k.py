"""Finds the greatest of many values without sorting all of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 64
"""So many values, each as far from the next, are looked at as one."""
_FEW = 24
"""Where less than one of so many chunks is wanted, only the chunks of the greatest are looked at:
that takes longer than to look at all values where they are no hundred thousands."""


def greatest(values: NDArray[np.floating[Any]], limit: int) -> NDArray[np.intp]:
    """Returns the places of the greatest ``values`` above 0, ``limit`` of them.

    Of equal ones the first; NaN counts as 0.
    """
    size = values.size // _CHUNK
    chunks, others = values[: size * _CHUNK].reshape(_CHUNK, size), values[size * _CHUNK :]
    maxima = chunks.max(axis=0)
    if np.isnan(maxima).any() or np.isnan(others).any():  # of NaN and others
        return greatest(np.nan_to_num(values), limit)
    # So many chunks have a value at least that great.
    least = np.partition(maxima, -limit)[-limit] if size > limit else 0.0
    least = max(least, np.finfo(np.float32).tiny)
    if size > _FEW * limit:
        within = np.flatnonzero(maxima >= least)
        rows, columns = np.nonzero(chunks[:, within] >= least)
        found = rows * size + within[columns]  # ascending
        found = np.append(found, size * _CHUNK + np.flatnonzero(others >= least))
    else:
        found = np.flatnonzero(values >= least)
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
