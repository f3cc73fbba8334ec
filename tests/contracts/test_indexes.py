"""What every `VectorIndex` has to do, measured against numpy in double precision."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.embedding.base import Vectors
from toolscript.retrieval.semantic.flat_index import FlatIndex
from toolscript.retrieval.semantic.index_base import VectorIndex

Build = Callable[[Vectors], VectorIndex]
INDEXES: list[Build] = [FlatIndex]
each_index = pytest.mark.parametrize("build", INDEXES)


def unit_rows(seed: int, count: int, dim: int) -> Vectors:
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@each_index
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 60), dim=st.integers(1, 40))
def test_cosines_are_those_of_brute_force_in_row_order(
    build: Build, seed: int, count: int, dim: int
) -> None:
    rows = unit_rows(seed, count + 1, dim)
    index = build(rows[:-1])
    found = index.cosines(rows[-1])
    expected = [
        sum(float(a) * float(b) for a, b in zip(row, rows[-1], strict=True)) for row in rows[:-1]
    ]
    assert len(index) == count
    assert found.dtype == np.float32
    assert found.shape == (count,)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@each_index
def test_a_row_is_nearest_to_itself(build: Build) -> None:
    rows = unit_rows(1, 500, 32)
    index = build(rows)
    assert [int(index.cosines(row).argmax()) for row in rows] == list(range(500))


@each_index
def test_an_empty_index_has_no_cosines(build: Build) -> None:
    index = build(np.zeros((0, 8), dtype=np.float32))
    assert len(index) == 0
    assert index.cosines(unit_rows(1, 1, 8)[0]).shape == (0,)


@each_index
def test_rows_in_any_memory_order_are_taken(build: Build) -> None:
    rows, query = unit_rows(1, 20, 8), unit_rows(2, 1, 8)[0]
    expected = build(rows).cosines(query)
    np.testing.assert_allclose(build(np.asfortranarray(rows)).cosines(query), expected, atol=1e-6)
    np.testing.assert_allclose(build(rows[::2]).cosines(query), expected[::2], atol=1e-6)
