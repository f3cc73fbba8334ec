"""The tools that are nearest by their components are those that are nearest by their vectors."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.many_tools import Made, made_tools
from toolscript.embedding.base import Encoder, Vectors, unit_rows
from toolscript.postgres import nearest_neighbors
from toolscript.postgres.nearest_neighbors import DIMS, Components, NearestNeighbors
from toolscript.postgres.reduced_vectors import principal_axes

LISTED = 200


@pytest.fixture(scope="module")
def vectors(encoder: Encoder) -> Vectors:
    made: Made = made_tools(encoder)
    return np.stack(list(made.vectors.values()))


@pytest.fixture(scope="module")
def questions(encoder: Encoder) -> Vectors:
    texts = ("read a file", "what time is it in Tokyo", "commit my changes")
    return np.stack([encoder.query(text) for text in texts])


@pytest.fixture(params=[True, False])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NumKong, and without."""
    if not request.param:
        monkeypatch.setattr(nearest_neighbors, "byte_kernels", lambda: None)


def index_of(vectors: Vectors, size: int) -> NearestNeighbors:
    """An index with room for ``size`` tools, filled in two steps."""
    index = NearestNeighbors(principal_axes(vectors, DIMS), size)
    half = len(vectors) // 2
    for part in (slice(0, half), slice(half, None)):
        index.put(range(len(vectors))[part], index.components_of(vectors[part]))
        index.settle()
    return index


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
def test_the_nearest_are_found_whatever_may_be_seen(
    vectors: Vectors,
    questions: Vectors,
    share: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nearest_neighbors, "_CELL", 64)
    index = index_of(vectors, 10)
    mask = np.random.default_rng(3).random(len(vectors)) < share
    seen = np.flatnonzero(mask)
    for question, found in zip(
        questions, index.nearest(questions, mask, [LISTED] * 3), strict=True
    ):
        assert found.size == min(LISTED, seen.size)
        assert mask[found].all()
        best = seen[np.argsort(-(vectors[seen] @ question))][:10]
        assert set(best.tolist()) <= set(found.tolist())


def test_cells_that_are_not_near_are_left_out(
    vectors: Vectors, questions: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a tool was put: with the first, among those of a cell, or into new cells."""
    monkeypatch.setattr(nearest_neighbors, "_CELL", 32)
    monkeypatch.setattr(nearest_neighbors, "_LEAST_COMPARED", 8)
    monkeypatch.setattr(nearest_neighbors, "_LEAST_CELLS", 4)
    index = NearestNeighbors(principal_axes(vectors, DIMS), 10)
    compared: list[int] = []
    dot_products = vars(NearestNeighbors)["_dot_products"]

    def counted(index: NearestNeighbors, asked: Components, packed: object) -> NDArray[np.int32]:
        products = dot_products(index, asked, packed)
        compared.append(products.shape[1])
        return products

    monkeypatch.setattr(NearestNeighbors, "_dot_products", counted)
    mask = np.ones(0, np.bool_)
    bounds = [0, 3, 40, 45, 400, 401, 1200, len(vectors)]
    for first, last in pairwise(bounds):
        index.put(range(first, last), index.components_of(vectors[first:last]))
        index.settle()
        mask = np.ones(last, np.bool_)
        for number in (0, last - 1):
            [found] = index.nearest(vectors[number : number + 1], mask, [5])
            alike = vectors[found] @ vectors[number]
            assert alike.max() > 0.999
    compared.clear()
    [found] = index.nearest(questions[:1], mask, [5])
    assert sum(compared) < 0.4 * len(vectors)
    best = np.argsort(-(vectors @ questions[0]))[:5]
    assert len({*found.tolist()} & {*best.tolist()}) >= 4


def test_of_few_cells_all_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest 15 % of them would miss more than those of many."""
    monkeypatch.setattr(nearest_neighbors, "_CELL", 16)
    monkeypatch.setattr(nearest_neighbors, "_LEAST_COMPARED", 1)
    vectors = unit_rows(np.random.default_rng(7).standard_normal((1200, 24)).astype(np.float32))
    index = NearestNeighbors(np.eye(24, dtype=np.float32), len(vectors))
    index.put(range(len(vectors)), index.components_of(vectors))
    index.settle()
    best = np.argsort(-(vectors[:50] @ vectors.T), axis=1)[:, :10]
    mask = np.ones(len(vectors), np.bool_)
    found = [index.nearest(each[None], mask, [20])[0] for each in vectors[:50]]
    assert np.mean([np.isin(*each).mean() for each in zip(best, found, strict=True)]) > 0.99


def test_a_sample_that_is_nearer_than_the_others_misleads_nobody(vectors: Vectors) -> None:
    """The sample is one of so many tools, in the order of the cells."""
    everything = np.vstack([vectors, vectors])
    index = index_of(everything, len(everything))
    cells = index._cells.cells  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    sample = np.concatenate([cell.numbers for cell in cells])[:: nearest_neighbors.SAMPLE]
    everything[sample] = vectors[0]
    index.put(sample.tolist(), index.components_of(everything[sample]))
    # They stay where they are: `settle` would have them move to another cell.
    for cell, (numbers, _) in enumerate(cells):
        cells[cell] = cells[cell]._replace(packed=index._pack(index._first[numbers]))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    for limits in ([5], [LISTED], [LISTED, 20], [20, LISTED]):
        asked = np.repeat(vectors[:1], len(limits), axis=0)
        for found, limit in zip(
            index.nearest(asked, np.ones(len(everything), np.bool_), limits), limits, strict=True
        ):
            assert found.size == len(set(found.tolist())) == limit
            assert np.count_nonzero(everything[found] @ vectors[0] > 0.99) >= min(limit, 75)


@pytest.mark.usefixtures("kernels")
def test_of_many_that_are_the_same_some_are_found(vectors: Vectors) -> None:
    """Their cells are one: the others stay empty."""
    everything = np.repeat(vectors[:2], 3000, axis=0)
    index = index_of(everything, 10)
    found = index.nearest(vectors[:2], np.ones(len(everything), np.bool_), [300, 100])
    assert [rows.size for rows in found] == [300, 100]
    assert (found[0] < 3000).all()
    assert (found[1] >= 3000).all()


def test_a_tool_whose_vector_changes_is_found_by_the_new_one(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest_neighbors, "_CELL", 32)
    monkeypatch.setattr(nearest_neighbors, "_LEAST_COMPARED", 8)
    monkeypatch.setattr(nearest_neighbors, "_LEAST_CELLS", 4)
    index = index_of(vectors, len(vectors))
    everything = vectors.copy()
    moved = np.random.default_rng(8).permutation(len(vectors))[:200]
    everything[moved] = vectors[np.roll(moved, 1)]
    index.put(moved.tolist(), index.components_of(everything[moved]))
    index.settle()
    mask = np.ones(len(vectors), np.bool_)
    for number in moved.tolist():
        [found] = index.nearest(everything[number : number + 1], mask, [5])
        assert (everything[found] @ everything[number]).max() > 0.999
    held = np.concatenate([cell.numbers for cell in index._cells.cells])  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    assert sorted(held.tolist()) == list(range(len(vectors)))


def test_of_tools_that_are_equally_near_the_first_are_found(vectors: Vectors) -> None:
    everything = vectors.copy()
    everything[100:1000] = vectors[0]
    index = index_of(everything, len(everything))
    [found] = index.nearest(vectors[:1], np.ones(len(everything), np.bool_), [50])
    assert found.tolist() == [0, *range(100, 149)]


@pytest.mark.usefixtures("kernels")
def test_where_no_tool_has_a_vector_none_is_near(
    vectors: Vectors,
) -> None:
    index = NearestNeighbors(principal_axes(vectors, DIMS), 10)
    asked, everything = vectors[:2], np.ones(5000, np.bool_)
    assert [rows.size for rows in index.nearest(asked, everything, [5, 5])] == [0, 0]
    index.put([3, 4001], index.components_of(vectors[:2]))
    index.settle()
    for mask in (everything, everything[:10]):
        seen = {3, 4001} if mask.size > 10 else {3}
        assert [set(rows.tolist()) for rows in index.nearest(asked, mask, [5, 5])] == [seen] * 2
    assert [rows.size for rows in index.nearest(asked, ~everything, [5, 5])] == [0, 0]


def test_the_products_are_nearly_those_of_the_vectors(vectors: Vectors, questions: Vectors) -> None:
    index = index_of(vectors, len(vectors))
    numbers = np.arange(3, len(vectors), 7)
    products = index.products(questions, numbers)
    assert np.abs(products - questions @ vectors[numbers].T).max() < 0.1
    index.put([10], index.components_of(vectors[:1]))
    index.settle()
    [nearest] = index.nearest(vectors[:1], np.ones(len(vectors), np.bool_), [2])
    assert sorted(nearest.tolist()) == [0, 10]


def test_vectors_may_have_few_numbers() -> None:
    vectors = np.random.default_rng(4).standard_normal((300, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = index_of(vectors, 10)
    for share in (1.0, 0.03):
        mask = np.random.default_rng(3).random(len(vectors)) < share
        mask[7] = True
        [found] = index.nearest(vectors[7:8], mask, [3])
        assert found.size == min(3, np.count_nonzero(mask))
        assert 7 in found


def test_of_a_tool_without_a_vector_no_product_is_known(vectors: Vectors) -> None:
    index = NearestNeighbors(principal_axes(vectors, DIMS), 4)
    index.put([2], index.components_of(vectors[:1]))
    products = index.products(vectors[:1], np.array([0, 2, 3, 900]))
    assert np.isnan(products).tolist() == [[True, False, True, True]]
