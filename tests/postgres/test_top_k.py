"""The greatest of many values are those that sorting finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolscript.postgres.top_k import greatest, greatest_of_rows


@given(st.integers(0, 2**32 - 1), st.integers(0, 6000), st.integers(1, 40), st.integers(1, 900))
def test_the_greatest_are_those_above_0_that_sorting_finds(
    seed: int, size: int, limit: int, different: int
) -> None:
    """Of equal ones the first, whatever the number of different ones; NaN is none of them."""
    chance = np.random.default_rng(seed)
    values = chance.integers(-different, different + 1, size).astype(np.float32)
    values[chance.random(size) < chance.choice([0, 0.01, 0.9])] = np.nan
    expected = sorted((n for n in range(size) if values[n] > 0), key=lambda n: (-values[n], n))
    assert sorted(greatest(values, limit)) == sorted(expected[:limit])


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 70))
def test_the_greatest_of_each_row_may_be_below_0(seed: int, size: int, limit: int) -> None:
    values = np.random.default_rng(seed).permuted(-np.ones((3, 1)) * np.arange(size), axis=1)
    for row, found in zip(values, greatest_of_rows(values, limit), strict=True):
        assert sorted(row[found]) == sorted(row)[-limit:]
