"""Divides many vectors into cells, and tells which of these have the greatest products."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

_SAMPLED = 64
"""So many vectors of each cell are looked at to find its center."""
_ROUNDS = 6
"""So often the centers are moved."""
_PART = 4096
"""So many vectors are compared with the centers at once."""
_DIRECTIONS = 2
"""In so many directions the vectors of a cell are apart by different amounts."""
_DEVIATIONS = 2
"""A cell's greatest products are about so many standard deviations above their mean."""

Integers = NDArray[np.integer[Any]]


class KMeans(NamedTuple):
    """Cells, each of what is nearer to its center than to those of the others."""

    centers: Vectors
    """float32 [cells, dim]."""
    directions: Vectors
    """Where the vectors of each cell are furthest apart: float32 [cells × directions, dim]. The
    square of the length is by how much the variance is greater than in the other directions."""
    variances: Vectors
    """The mean variance of each cell in all other directions: float32 [cells]."""

    @classmethod
    def none(cls, dim: int) -> "KMeans":
        """Returns no cells."""
        return cls(*(np.empty(shape, np.float32) for shape in ((0, dim), (0, dim), (0,))))

    @classmethod
    def fit(cls, vectors: Integers, count: int) -> tuple["KMeans", NDArray[np.intp]]:
        """Divides vectors by Lloyd's algorithm, on a sample of them.

        Args:
            vectors: [n, dim]. Nothing may repeat every so many of them: the sample is taken so.
            count: How many cells there are: 1 to n.

        Returns:
            The cells, and each vector's: [n].
        """
        sample = vectors[:: max(1, len(vectors) // (count * _SAMPLED))].astype(np.float32)
        centers = sample[:: len(sample) // count][:count].copy()
        for _ in range(_ROUNDS):
            order, used, starts = _sorted(_nearest(sample, centers))
            sums = np.add.reduceat(sample[order], starts, axis=0)
            centers[used] = sums / np.diff(starts, append=len(order))[:, None]
        nearest = _nearest(vectors, centers)
        return cls(centers, *_spread(vectors, nearest, centers)), nearest

    def nearest(self, vectors: Integers) -> NDArray[np.intp]:
        """Returns the number of each vector's cell: [n].

        Args:
            vectors: [n, dim].
        """
        return _nearest(vectors, self.centers)

    def greatest_products(self, questions: Integers) -> Vectors:
        """Returns about how great the products of questions with a cell's vectors are at most.

        Args:
            questions: [questions, dim].

        Returns:
            float32 [questions, cells].
        """
        asked = questions.astype(np.float32)
        along = (asked @ self.directions.T).reshape(len(asked), len(self.centers), -1)
        others = self.variances * (asked**2).sum(axis=1, keepdims=True)
        deviations = np.sqrt((along**2).sum(axis=2) + others)
        products: Vectors = asked @ self.centers.T + _DEVIATIONS * deviations
        return products


def _nearest(vectors: NDArray[Any], centers: Vectors) -> NDArray[np.intp]:
    found = np.empty(len(vectors), np.intp)
    offsets = (centers**2).sum(axis=1) / 2
    for first in range(0, len(vectors), _PART):
        part = vectors[first : first + _PART].astype(np.float32)
        found[first : first + _PART] = (part @ centers.T - offsets).argmax(axis=1)
    return found


def _sorted(numbers: NDArray[np.intp]) -> tuple[NDArray[np.intp], ...]:
    """Returns the order of some numbers, the different ones, and where each begins."""
    order = np.argsort(numbers, kind="stable")
    return order, *np.unique(numbers[order], return_index=True)


def _spread(
    vectors: Integers, nearest: NDArray[np.intp], centers: Vectors
) -> tuple[Vectors, Vectors]:
    """Returns the directions and the variances of cells."""
    count, dim = centers.shape
    kept = min(_DIRECTIONS, dim - 1)
    directions = np.zeros((count, kept, dim), np.float32)
    variances = np.zeros(count, np.float32)
    order, used, starts = _sorted(nearest)
    for cell, rows in zip(used, np.split(order, starts[1:]), strict=True):
        apart = vectors[rows].astype(np.float32) - centers[cell]
        values, axes = np.linalg.eigh(apart.T @ apart / len(rows))  # ascending
        variances[cell] = max(0.0, values[: dim - kept].mean())  # rounded
        more = np.sqrt(np.maximum(values[dim - kept :] - variances[cell], 0))
        directions[cell] = (axes[:, dim - kept :] * more).T
    return directions.reshape(-1, dim), variances
