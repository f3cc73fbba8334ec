"""The principal components of vectors, as float32 and as bytes."""

import sys
from collections.abc import Generator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.retrieval.semantic.reduced_vectors import (
    Reduced,
    ReducedByteVectors,
    ReducedVectors,
    byte_kernels,
    reduced,
)

SIZE, DIM, LISTED = 9_000, 384, 50


@pytest.fixture(params=["float32", "bytes"])
def kernels(request: pytest.FixtureRequest) -> Any:
    return import_module("numkong") if request.param == "bytes" else None


def vectors_like_those_of_texts(size: int = SIZE) -> Vectors:
    """Vectors most of which is in some directions, as it is with those of texts."""
    chance = np.random.default_rng(5)
    spread = 1 / np.arange(1, DIM + 1)
    return unit_rows((chance.normal(size=(size, DIM)) * spread).astype(np.float32))


def components(vectors: Vectors, kernels: Any) -> Reduced:
    return reduced(len(vectors), vectors.__getitem__, kernels)


def test_the_nearest_are_among_the_first_by_their_components(kernels: Any) -> None:
    vectors = vectors_like_those_of_texts()
    questions = vectors[[7, 4_000, 8_999]]
    found = components(vectors, kernels)
    assert isinstance(found, ReducedVectors if kernels is None else ReducedByteVectors)
    products = found.products(questions)
    assert (products.shape, products.dtype) == ((3, SIZE), np.float32)
    cosines = questions @ vectors.T
    assert np.abs(products - cosines).max() < 0.02
    for exact, near in zip(cosines, products, strict=True):
        first = set(np.argsort(-near)[: 4 * LISTED].tolist())
        assert set(np.argsort(-exact)[:LISTED].tolist()) <= first


def test_other_vectors_at_some_places_are_found_there(kernels: Any) -> None:
    vectors = vectors_like_those_of_texts()
    before = components(vectors, kernels)
    places = np.array([0, 5_000, 8_999])
    after = before.replacing(places, vectors[[10, 11, 12]])
    products = after.products(vectors[[10, 11, 12]])
    assert np.allclose(products[[0, 1, 2], places], products[[0, 1, 2], [10, 11, 12]], atol=1e-6)
    others = np.setdiff1d(np.arange(SIZE), places)
    known = before.products(vectors[[10, 11, 12]])
    assert np.allclose(products[:, others], known[:, others], atol=1e-6)
    assert (known[[0, 1, 2], places] < 0.99).all()


def test_a_question_of_zeros_is_near_to_none(kernels: Any) -> None:
    vectors = vectors_like_those_of_texts(300)
    assert not components(vectors, kernels).products(np.zeros((1, DIM), np.float32)).any()


@pytest.fixture
def looked_up_again() -> Generator[None]:
    byte_kernels.cache_clear()
    yield
    byte_kernels.cache_clear()


@pytest.mark.usefixtures("looked_up_again")
def test_without_the_extra_there_are_no_byte_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numkong", None)
    assert byte_kernels() is None
