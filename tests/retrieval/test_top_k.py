"""The greatest of many values are those that sorting finds."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolscript.retrieval.top_k import RunningGreatest

VALUES = st.lists(st.integers(-9, 9), max_size=60)


@given(VALUES, st.integers(1, 8), st.integers(1, 70), st.integers(-10, 9), st.randoms())
def test_the_greatest_of_parts_are_the_greatest_of_all(
    values: list[int], limit: int, part: int, least: int, chance: random.Random
) -> None:
    counts = [chance.random() < 0.7 for _ in values]
    expected = sorted(
        (n for n, value in enumerate(values) if counts[n] and value > least),
        key=lambda n: (-values[n], n),
    )
    found = RunningGreatest(limit, least)
    for first in range(0, len(values), part):
        taken = slice(first, first + part)
        found.add(np.array(values[taken]), first, np.array(counts[taken]))
    assert found.places.tolist() == expected[:limit]
