"""While the database is away, searches find what a gateway knows."""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from tests.many_tools import Made, asked, grants, made_tools
from tests.postgres import free_port
from toolscript.cluster.candidate_builder import rebuild
from toolscript.cluster.candidate_rows import by_server, vectors_of
from toolscript.cluster.candidate_search import CandidateSearch
from toolscript.cluster.change_feed import ChangeFeed
from toolscript.cluster.database import Database
from toolscript.cluster.fallback_rows import FallbackRows
from toolscript.cluster.grant_masks import GrantMasks
from toolscript.cluster.resident_index import IndexMemory, IndexRow
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest, SearchResult

LISTED = 200
PROFILE = search_profile(0.5, 10, 0.0)
ROWS = """
select tool.number, document, words, lengths, purpose, executes, vector, server
from toolscript.candidate_tool as tool order by number
"""
Known = Mapping[str, Sequence[Document]]


class Indexed:
    """Tools in the database's index, the index in memory, and an address without a database."""

    def __init__(self, database: Database, model: LazyModel, encoder: Encoder) -> None:
        self.made: Made = made_tools(encoder)
        self.database = database
        rebuild(
            database,
            "default",
            encoder.name,
            self.made.batches,
            feed=ChangeFeed(database, "default"),
        )
        row = database.run(lambda connection: IndexRow.current(connection, "default"))
        self.memory = IndexMemory(row, Stemmer())
        database.run(lambda connection: self.memory.load(connection, row))
        self.away = Database(f"postgresql://toolscript@127.0.0.1:{free_port()}/toolscript")
        self.away.start()
        self.semantic = SemanticSignal(model, lambda: None)

    def documents(self) -> Known:
        return by_server(self.made.documents.values())

    def find(self, database: Database, request: SearchRequest) -> SearchResult:
        search = CandidateSearch(
            database,
            Stemmer(),
            semantic=self.semantic,
            learning=None,
            listed=LISTED,
            documents=self.documents,
        )
        engine = SearchEngine(PROFILE)
        state = asyncio.run(search.find(engine.plan(request), self.memory, None))
        return engine.score(engine.plan(request), state)


@pytest.fixture
def indexed(
    connect: Callable[[], Database], model: LazyModel, encoder: Encoder
) -> Generator[Indexed]:
    indexed = Indexed(connect(), model, encoder)
    yield indexed
    indexed.away.close()


def test_a_search_goes_on_and_says_so(indexed: Indexed) -> None:
    same, requests = 0, [*asked()[::2], *grants()[::9]]
    for request in requests:
        expected = indexed.find(indexed.database, request)
        found = indexed.find(indexed.away, request)
        assert not expected.degraded
        [line] = found.degraded
        assert line.startswith("index: the database does not answer")
        best, others = expected.hits[:1], {hit.document.id for hit in found.hits[:3]}
        same += all(hit.document.id in others for hit in best)
        seen = {hit.document.server for hit in found.hits}
        assert not request.servers or seen <= set(request.servers)
    assert same >= 0.85 * len(requests)


def test_no_grant_shows_more(indexed: Indexed) -> None:
    for request in grants():
        (with_database, problem), (without, _) = (
            GrantMasks(database, indexed.documents).visible(
                indexed.memory, indexed.memory.snapshot, request, None
            )
            for database in (indexed.database, indexed.away)
        )
        assert not problem
        assert np.array_equal(with_database, without)


def test_a_row_is_what_the_database_has(indexed: Indexed) -> None:
    rows = indexed.database.run(lambda connection: connection.fetch(ROWS))[::50]
    numbers = [row[0] for row in rows]
    found = FallbackRows(indexed.documents, CapabilityReader(Stemmer())).of(indexed.memory, numbers)
    assert [row[:6] for row in sorted(found)] == [tuple(row[:6]) for row in rows]
    assert [row[7] for row in sorted(found)] == [row[7] for row in rows]
    stored = vectors_of([row[6] for row in rows])
    made = vectors_of([row.vector for row in sorted(found) if row.vector is not None])
    assert len(made) == len(stored)
    assert (stored * made).sum(axis=1).min() > 0.7
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=0.002)


def test_words_that_the_index_has_not_got_are_left_out(indexed: Indexed) -> None:
    identifier, known = next(iter(indexed.made.documents.items()))
    changed = replace(known, description=f"{known.description} zyqqx")
    indexed.made.documents[identifier] = changed
    [number] = indexed.memory.names.by_id(identifier, indexed.memory.snapshot.alive)
    local = FallbackRows(indexed.documents, CapabilityReader(Stemmer()))
    [row] = local.of(indexed.memory, [number])
    indexed.made.documents[identifier] = known
    [other] = local.of(indexed.memory, [number])
    assert row[2:4] == other[2:4]
    assert local.of(indexed.memory, [number])
    indexed.made.documents.pop(identifier)
    assert local.of(indexed.memory, [number]) == []
