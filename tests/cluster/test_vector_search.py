"""The nearest vectors and their products with questions, in a real PostgreSQL."""

import asyncio
from collections.abc import Callable

import numpy as np
import pytest

from tests.many_tools import Made, made_tools
from toolscript.cluster.candidate_builder import rebuild
from toolscript.cluster.change_feed import ChangeFeed
from toolscript.cluster.database import Database
from toolscript.cluster.grant_filters import ToolFilter, tool_filter
from toolscript.cluster.resident_index import IndexMemory, IndexRow
from toolscript.cluster.vector_search import Compared, VectorSearch
from toolscript.embedding.base import Encoder, Vectors
from toolscript.retrieval.base import Mask
from toolscript.retrieval.lexical.analyzer import Stemmer

LISTED = 20


@pytest.fixture
def memory(connect: Callable[[], Database], encoder: Encoder) -> tuple[Database, IndexMemory]:
    database = connect()
    made: Made = made_tools(encoder)
    feed = ChangeFeed(database, "default")
    rebuild(database, "default", encoder.name, made.batches, feed=feed)
    row = database.run(lambda connection: IndexRow.current(connection, "default"))
    memory = IndexMemory(row, Stemmer())
    database.run(lambda connection: memory.load(connection, row))
    return database, memory


def test_the_same_are_nearest_by_the_graph_and_one_by_one(
    memory: tuple[Database, IndexMemory], encoder: Encoder
) -> None:
    database, index = memory
    search = VectorSearch(database, LISTED)
    questions: Vectors = np.stack(
        [encoder.query(text) for text in ("read a file", "what time is it in Tokyo")]
    )
    everything = np.ones(index.snapshot.alive.size, np.bool_)
    half = np.arange(everything.size) % 2 == 0

    def filters(mask: Mask) -> list[ToolFilter]:
        return [tool_filter(index.snapshot, mask, most) for most in (0, everything.size)]

    for mask in (everything, half):
        by_graph, one_by_one = (
            asyncio.run(search.nearest(index.id, questions, [each])) for each in filters(mask)
        )
        compared = one_by_one.compared
        assert compared is not None
        assert by_graph.compared is None
        assert compared.numbers.tolist() == np.flatnonzero(mask).tolist()
        for products, near, nearest in zip(
            compared.products, by_graph.lists, one_by_one.lists, strict=True
        ):
            assert len(near) == len(nearest) == LISTED
            assert len(set(near.tolist()) & set(nearest.tolist())) >= 0.9 * LISTED
            best = np.argsort(-products)[:LISTED]
            assert set(nearest.tolist()) == set(compared.numbers[best].tolist())
        some = compared.numbers[5:50:3]
        again = asyncio.run(search.compared(index.id, questions, some))
        assert np.array_equal(again.products, compared.of(some.astype(np.intp)))


def test_what_was_not_compared_is_not_known() -> None:
    compared = Compared(np.array([2, 5, 9], np.int32), np.array([[0.25, 0.5, 1]], np.float32))
    assert np.isnan(compared.of(np.array([1, 5, 7]))).tolist() == [[True, False, True]]
    assert compared.of(np.array([5, 9])).tolist() == [[0.5, 1.0]]
