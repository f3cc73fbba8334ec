"""A search to compare times with: it finds the 200 vectors nearest to a question, nothing else.

A machine's speed changes from hour to hour; the ratio of two times measured together does not.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import cache

import numpy as np

from benchmarks.quality.own import encoder
from toolscript.embedding.base import Vectors

NEAREST = 200
LARGEST = 100_000
"""So many vectors are compared at most: a million would take 1.5 GB."""
Baseline = Callable[[str], Awaitable[None]]
"""Finds the nearest of a question's text. What it finds is not looked at."""


@cache
def _vector(text: str) -> Vectors:
    """Returns the vector of a question, embedded once."""
    return encoder().query(text)


def numpy_baseline(batches: Iterable[Vectors]) -> Baseline:
    """Returns NumPy's product of the vectors and the question, and the greatest of it.

    Args:
        batches: The vectors of tools: float32 [n, dim], several times.
    """
    parts: list[Vectors] = []
    left = LARGEST
    for batch in batches:
        parts.append(batch[:left])
        left -= len(parts[-1])
        if not left:
            break

    async def nearest(text: str) -> None:
        cosines = np.concatenate([rows @ _vector(text) for rows in parts])
        np.argpartition(-cosines, min(NEAREST, cosines.size - 1))

    return nearest
