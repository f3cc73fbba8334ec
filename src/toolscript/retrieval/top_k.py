"""Finds the greatest of very many values without sorting them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 64
"""So many values, each as far from the next, are looked at as one."""


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
