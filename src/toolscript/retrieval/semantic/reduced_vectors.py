"""Compares very many vectors with questions approximately, by their first principal components.

Reading all vectors takes most of the time of a search among very many. 96 components of vectors of
384 numbers are a fourth of the bytes, and their inner products come close to the cosines: nearly
all of the n nearest vectors are among the 4 n that these products rank first. With the extra
`large`, NumKong compares 128 components as bytes with all questions at once, in less time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

FLOAT_DIMS, BYTE_DIMS = 96, 128
"""So many components are kept as float32, or as bytes."""
SAMPLE = 8192
"""So many vectors tell which components vary most."""
_PART = 4096
"""So many vectors are looked at together."""
GREATEST = 127
VectorsOf: TypeAlias = Callable[[slice], Vectors]
"""Returns some of the vectors: float32 [n, dim]."""


@cache
def byte_kernels() -> Any:
    """Returns the module ``numkong``; None if the extra `large` is not installed."""
    try:
        return import_module("numkong")
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class ReducedVectors:
    """The principal components of n vectors, as float32."""

    basis: Vectors
    """float32 [dim, components], orthonormal columns."""
    rows: Vectors
    """float32 [n, components]."""

    def replacing(self, places: NDArray[np.intp], vectors: Vectors) -> "ReducedVectors":
        """Returns these with other ``vectors`` at some ``places``."""
        rows = self.rows.copy()
        rows[places] = vectors @ self.basis
        return ReducedVectors(self.basis, rows)

    def products(self, questions: Vectors) -> Vectors:
        """Returns about the cosine of each vector with each question: float32 [questions, n]."""
        return inner_products(questions @ self.basis, self.rows, _PART)


@dataclass(frozen=True, slots=True)
class ReducedByteVectors:
    """The principal components of n vectors, as bytes."""

    basis: Vectors
    """float32 [dim, components], orthonormal columns."""
    rows: NDArray[np.int8]
    """[n, components], times 127: no component of a unit vector is greater than 1."""
    kernels: Any
    """The module ``numkong``."""
    packed: Any
    """The rows in the order in which it reads them."""

    def replacing(self, places: NDArray[np.intp], vectors: Vectors) -> "ReducedByteVectors":
        """Returns these with other ``vectors`` at some ``places``."""
        rows = self.rows.copy()
        rows[places] = component_bytes(vectors @ self.basis)
        packed = self.kernels.dots_pack(rows, dtype="int8")
        return ReducedByteVectors(self.basis, rows, self.kernels, packed)

    def products(self, questions: Vectors) -> Vectors:
        """Returns about the cosine of each vector with each question: float32 [questions, n]."""
        asked, greatest = question_bytes(questions @ self.basis)
        found = np.asarray(self.kernels.dots_packed(asked, self.packed))
        products: Vectors = found.astype(np.float32)
        products *= greatest
        products *= 1 / GREATEST**2
        return products


Reduced: TypeAlias = ReducedVectors | ReducedByteVectors


def reduced(size: int, vectors_of: VectorsOf, kernels: Any = None) -> Reduced:
    """Returns the principal components of ``size`` unit vectors.

    Args:
        size: How many there are.
        vectors_of: Returns some of them.
        kernels: See `byte_kernels`; with None the components are float32.
    """
    dims = FLOAT_DIMS if kernels is None else BYTE_DIMS
    basis = principal_axes(vectors_of(slice(0, size, max(1, size // SAMPLE))), dims)
    kind = np.float32 if kernels is None else np.int8
    rows: NDArray[Any] = np.empty((size, basis.shape[1]), kind)
    for first in range(0, size, _PART):
        part = slice(first, min(size, first + _PART))
        found = vectors_of(part) @ basis
        rows[part] = found if kernels is None else component_bytes(found)
    if kernels is None:
        return ReducedVectors(basis, rows)
    return ReducedByteVectors(basis, rows, kernels, kernels.dots_pack(rows, dtype="int8"))


def principal_axes(vectors: Vectors, count: int) -> Vectors:
    """Returns the axes along which vectors vary most: float32 [dim, count], orthonormal columns.

    Args:
        vectors: A sample: float32 [n, dim].
        count: How many axes there are, at most ``dim``.
    """
    sample = vectors.astype(np.float64)
    # Not about the mean: it is the inner products that are to be kept.
    _, axes = np.linalg.eigh(sample.T @ sample)
    return np.ascontiguousarray(axes[:, ::-1][:, :count], np.float32)


def component_bytes(components: Vectors) -> NDArray[np.int8]:
    """Returns components of unit vectors, none of them greater than 1, as bytes: times 127."""
    return np.rint(components * np.float32(GREATEST)).astype(np.int8)


def question_bytes(components: Vectors) -> tuple[NDArray[np.int8], Vectors]:
    """Returns questions as bytes, and the greatest component of each: float32 [questions, 1].

    Args:
        components: float32 [questions, components].
    """
    greatest = np.maximum(np.abs(components).max(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return component_bytes(components / greatest), greatest


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
