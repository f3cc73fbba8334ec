"""Vectors that lie together are in one cell, and its greatest products are told about right."""

import numpy as np

from toolscript.postgres.k_means import KMeans


def test_groups_that_lie_apart_are_told_apart() -> None:
    chance = np.random.default_rng(5)
    groups = np.eye(4, 8, dtype=np.float32) * 100
    group = chance.integers(0, 4, 3000)
    vectors = (groups[group] + chance.normal(0, 3, (3000, 8))).astype(np.int8)
    cells, nearest = KMeans.fit(vectors, 4)
    assert cells.centers.shape == (4, 8)
    for number in range(4):
        assert len(set(nearest[group == number].tolist())) == 1
    assert len(set(nearest.tolist())) == 4
    assert cells.nearest(groups.astype(np.int8)).tolist() == [
        nearest[group == number][0] for number in range(4)
    ]


def test_every_vector_is_in_the_cell_of_the_nearest_center() -> None:
    chance = np.random.default_rng(6)
    for size, count in ((1, 1), (2, 2), (5, 5), (9000, 7)):
        vectors = chance.integers(-127, 128, (size, 16)).astype(np.int8)
        cells, nearest = KMeans.fit(vectors, count)
        distances = ((vectors[:, None] - cells.centers[None]) ** 2).sum(axis=2)
        found = distances[np.arange(size), nearest]
        assert np.allclose(found, distances.min(axis=1), rtol=1e-4, atol=1e-2)


def test_vectors_that_are_the_same_leave_nothing_undefined() -> None:
    vectors = np.full((100, 4), 7, np.int8)
    cells, nearest = KMeans.fit(vectors, 3)
    assert (cells.centers == 7).all()
    assert (nearest == 0).all()
    assert np.isfinite(cells.greatest_products(vectors[:2])).all()


def test_a_cell_whose_vectors_are_far_apart_may_have_the_greatest_product() -> None:
    """Though the mean of its products is smaller than another's."""
    chance = np.random.default_rng(7)
    narrow = chance.normal([60, 0, 0, 0, 0, 0, 0, 0], 1, (2000, 8))
    wide = chance.normal([30, 90, 0, 0, 0, 0, 0, 0], [20, 1, 1, 1, 1, 1, 1, 1], (2000, 8))
    vectors = np.vstack([narrow, wide]).round().astype(np.int8)
    cells, nearest = KMeans.fit(vectors, 2)
    question = np.array([[100, 0, 0, 0, 0, 0, 0, 0]], np.int8)
    products = vectors @ question[0].astype(np.int64)
    [estimates] = cells.greatest_products(question)
    means = [products[nearest == cell].mean() for cell in (0, 1)]
    greatest = [np.quantile(products[nearest == cell], 0.98) for cell in (0, 1)]
    assert np.allclose(estimates, greatest, rtol=0.05)
    assert np.argmax(estimates) == np.argmax(greatest) != np.argmax(means)
