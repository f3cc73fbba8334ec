"""Finds nearly the nearest of very many vectors, by their principal components.

Reading all vectors takes most of the time of a search among very many. The first principal
components of unit vectors of 384 numbers are a fourth of the bytes, and their inner products come
close to the cosines: of the nearest, nearly all are among the first four times as many.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

DIMS = 96
"""So many components are kept."""
_SAMPLE = 8192
"""So many vectors tell which components vary most."""
_PART = 4096
"""So many vectors are looked at together."""
VectorsOf: TypeAlias = Callable[[slice], Vectors]
"""Returns some of the vectors: float32 [n, dim]."""


@dataclass(frozen=True, slots=True)
class ReducedVectors:
    """The principal components of n vectors."""

    basis: Vectors
    """float32 [dim, `DIMS`], orthonormal columns."""
    rows: Vectors
    """float32 [n, `DIMS`]."""

    @classmethod
    def of(cls, size: int, vectors_of: VectorsOf) -> "ReducedVectors":
        """Returns the components of ``size`` vectors, some of which ``vectors_of`` returns."""
        sample = vectors_of(slice(0, size, max(1, size // _SAMPLE))).astype(np.float64)
        # Not about the mean: it is the inner products that are to be kept.
        _, axes = np.linalg.eigh(sample.T @ sample)
        basis = np.ascontiguousarray(axes[:, ::-1][:, :DIMS], np.float32)
        rows = np.empty((size, basis.shape[1]), np.float32)
        for first in range(0, size, _PART):
            part = slice(first, min(size, first + _PART))
            np.dot(vectors_of(part), basis, out=rows[part])
        return cls(basis, rows)

    def replacing(self, places: NDArray[np.intp], vectors: Vectors) -> "ReducedVectors":
        """Returns these with other ``vectors`` at some ``places``."""
        rows = self.rows.copy()
        rows[places] = vectors @ self.basis
        return ReducedVectors(self.basis, rows)

    def products(self, questions: Vectors) -> Vectors:
        """Returns about the cosine of each vector with each question: float32 [questions, n]."""
        return inner_products(questions @ self.basis, self.rows, _PART)


def inner_products(questions: Vectors, rows: Vectors, part: int) -> Vectors:
    """Returns the inner product of each question with each row: float32 [questions, rows].

    So many rows as ``part`` says are taken at a time, which stay in the processor's cache.
    """
    found = np.empty((len(questions), len(rows)), np.float32)
    for first in range(0, len(rows), part):
        taken = slice(first, first + part)
        for question, products in zip(questions, found, strict=True):
            np.dot(rows[taken], question, out=products[taken])
    return found
