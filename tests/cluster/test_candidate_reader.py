"""Rows of candidates are kept in memory until their server changes."""

import asyncio
from collections.abc import Callable, Generator
from dataclasses import replace

import numpy as np
import pytest

from tests.cluster.test_fallback_rows import LISTED, PROFILE, Indexed
from tests.postgres import PostgresServer
from toolscript.cluster.candidate_reader import CandidateReader
from toolscript.cluster.candidate_search import CandidateSearch
from toolscript.cluster.candidate_writer import ServerTools
from toolscript.cluster.candidates import DatabaseCandidates
from toolscript.cluster.change_feed import ChangeFeed
from toolscript.cluster.database import Database
from toolscript.cluster.fallback_rows import FallbackRows
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel
from toolscript.errors import DatabaseUnavailableError
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.types import SearchRequest, SearchResult

NUMBERS = list(range(0, 60, 3))


@pytest.fixture
def indexed(
    connect: Callable[[], Database], model: LazyModel, encoder: Encoder
) -> Generator[Indexed]:
    indexed = Indexed(connect(), model, encoder)
    yield indexed
    indexed.away.close()


def reader(indexed: Indexed, max_bytes: int = 1 << 20) -> CandidateReader:
    fallback = FallbackRows(indexed.documents, CapabilityReader(Stemmer()))
    return CandidateReader(indexed.database, fallback, max_bytes)


def remove_rows(indexed: Indexed) -> None:
    indexed.database.run(
        lambda connection: connection.execute("truncate toolscript.candidate_tool")
    )


def test_a_row_is_read_once(indexed: Indexed) -> None:
    known, memory = reader(indexed), indexed.memory
    rows, problem = known.read(memory, memory.snapshot, NUMBERS)
    assert sorted(row.number for row in rows) == NUMBERS
    assert not problem
    remove_rows(indexed)
    assert sorted(known.read(memory, memory.snapshot, NUMBERS)[0]) == sorted(rows)
    assert known.read(memory, memory.snapshot, [*NUMBERS, 1])[0] == rows, "that one is gone"
    assert known.read(memory, memory.snapshot, []) == ([], "")


def test_the_rows_of_a_server_that_has_changed_are_read_again(indexed: Indexed) -> None:
    known, memory = reader(indexed), indexed.memory
    rows, _ = known.read(memory, memory.snapshot, NUMBERS)
    remove_rows(indexed)
    server = rows[0].server
    changed_at = memory.snapshot.changed_at + (np.arange(len(memory.servers)) == server)
    later, _ = known.read(memory, replace(memory.snapshot, changed_at=changed_at), NUMBERS)
    assert later
    assert sorted(later) == sorted(row for row in rows if row.server != server)


def test_each_change_of_a_server_is_noted(indexed: Indexed) -> None:
    candidates = DatabaseCandidates(
        indexed.database, ChangeFeed(indexed.database, "default"), "default"
    )
    candidates.open()
    tools = indexed.documents()["time-2"]
    asyncio.run(candidates.replace_server(ServerTools("time-2", tools[1:], {})))
    memory, before = indexed.memory, indexed.memory.snapshot
    indexed.database.run(memory.advance)
    changed = np.flatnonzero(memory.snapshot.changed_at != before.changed_at)
    assert [memory.servers[number] for number in changed] == ["time-2"]
    assert set(memory.snapshot.changed_at[changed]) == {memory.snapshot.position}


def test_rows_that_take_too_much_memory_are_read_each_time(indexed: Indexed) -> None:
    known, memory = reader(indexed, max_bytes=20_000), indexed.memory
    rows, _ = known.read(memory, memory.snapshot, NUMBERS)
    assert len(rows) == len(NUMBERS)
    remove_rows(indexed)
    kept, _ = known.read(memory, memory.snapshot, NUMBERS)
    assert 0 < len(kept) < len(NUMBERS)


def test_while_the_database_is_left_out_rows_are_known_or_made(indexed: Indexed) -> None:
    known, memory = reader(indexed), indexed.memory
    rows, _ = known.read(memory, memory.snapshot, NUMBERS)
    found, problem = known.read(memory, memory.snapshot, [*NUMBERS, 1], "it is away")
    assert problem == "it is away"
    assert [row for row in found if row.number != 1] == rows
    [made] = [row for row in found if row.number == 1]
    [read], _ = known.read(memory, memory.snapshot, [1])
    assert (made.document, made.words) == (read.document, read.words)
    assert made.vector != read.vector, "a made one is not kept"


def test_a_search_that_needs_no_row_says_that_the_database_is_away(
    indexed: Indexed, postgres: PostgresServer
) -> None:
    search = CandidateSearch(
        indexed.database,
        Stemmer(),
        semantic=indexed.semantic,
        learning=None,
        listed=LISTED,
        documents=indexed.documents,
    )
    engine = SearchEngine(PROFILE)
    plan = engine.plan(SearchRequest(text="read a file"))

    def found() -> SearchResult:
        return engine.score(plan, asyncio.run(search.find(plan, indexed.memory, None)))

    before = found()
    assert not before.degraded
    postgres.stop()
    try:
        with pytest.raises(DatabaseUnavailableError):
            indexed.database.run(lambda connection: connection.fetchval("select 1"))
        after = found()
    finally:
        postgres.start()
    assert after.hits == before.hits
    assert after.degraded[0].startswith("index: ")
