"""Vectors that lie together are of one cluster."""

import numpy as np

from toolscript.cluster.k_means import cluster_centers, nearest_centers


def test_groups_that_lie_apart_are_told_apart() -> None:
    chance = np.random.default_rng(5)
    groups = np.eye(4, 8, dtype=np.float32) * 100
    group = chance.integers(0, 4, 3000)
    vectors = (groups[group] + chance.normal(0, 3, (3000, 8))).astype(np.int8)
    centers = cluster_centers(vectors, 4)
    nearest = nearest_centers(vectors, centers)
    assert centers.shape == (4, 8)
    for number in range(4):
        assert len(set(nearest[group == number].tolist())) == 1
    assert len(set(nearest.tolist())) == 4


def test_every_center_has_its_nearest_vectors_whatever_their_number() -> None:
    chance = np.random.default_rng(6)
    for size, count in ((1, 1), (2, 2), (5, 5), (9000, 7)):
        vectors = chance.integers(-127, 128, (size, 16)).astype(np.int8)
        centers = cluster_centers(vectors, count)
        distances = ((vectors[:, None] - centers[None]) ** 2).sum(axis=2)
        nearest = nearest_centers(vectors, centers)
        assert np.allclose(
            distances[np.arange(size), nearest], distances.min(axis=1), rtol=1e-4, atol=1e-2
        )


def test_alike_vectors_leave_no_center_undefined() -> None:
    vectors = np.full((100, 4), 7, np.int8)
    centers = cluster_centers(vectors, 3)
    assert (centers == 7).all()
    assert (nearest_centers(vectors, centers) == 0).all()
