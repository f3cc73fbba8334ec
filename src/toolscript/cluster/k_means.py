"""Divides many vectors into clusters: Lloyd's k-means on a sample of them."""

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

_SAMPLED = 64
"""So many vectors of each cluster are looked at."""
_ROUNDS = 6
"""So often the centers are moved."""
_PART = 4096
"""So many vectors are compared with the centers at once."""


def cluster_centers(vectors: NDArray[np.number], count: int) -> Vectors:
    """Returns the centers of ``count`` clusters: float32 [count, dim].

    Args:
        vectors: [n, dim], in an order that tells nothing of ``n / count`` of them.
        count: At most n.
    """
    sample = vectors[:: max(1, len(vectors) // (count * _SAMPLED))].astype(np.float32)
    centers = sample[:: len(sample) // count][:count].copy()
    for _ in range(_ROUNDS):
        nearest = nearest_centers(sample, centers)
        order = np.argsort(nearest, kind="stable")
        used, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], starts, axis=0)
        centers[used] = sums / np.diff(np.append(starts, len(order)))[:, None]
    return centers


def nearest_centers(vectors: NDArray[np.number], centers: Vectors) -> NDArray[np.intp]:
    """Returns the number of the center that is nearest to each vector: [n].

    Args:
        vectors: [n, dim].
        centers: float32 [centers, dim].
    """
    found = np.empty(len(vectors), np.intp)
    offsets = (centers**2).sum(axis=1) / 2
    for first in range(0, len(vectors), _PART):
        part = vectors[first : first + _PART].astype(np.float32)
        found[first : first + _PART] = (part @ centers.T - offsets).argmax(axis=1)
    return found
