"""The principal components of vectors, as bytes."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

SAMPLE = 8192
"""So many vectors tell which components vary most."""
GREATEST = 127


@cache
def byte_kernels() -> Any:
    """Returns the module ``numkong``; None if the extra `large` is not installed."""
    try:
        return import_module("numkong")
    except ImportError:
        return None


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
