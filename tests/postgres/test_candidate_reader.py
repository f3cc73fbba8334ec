"""Rows of candidates are cached until their server changes."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio
import numpy as np
import pytest
from msgspec import structs

from tests.indexed_tools import ENGINE, Indexed
from tests.postgres.test_candidates import WAITING
from tests.postgres_server import PostgresServer
from tests.support import until
from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.candidate_reader import CandidateReader
from toolscript.postgres.candidate_writer import ServerTools
from toolscript.postgres.candidates import DatabaseCandidates
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import READ_TIMEOUT_S, Database
from toolscript.postgres.fallback_rows import FallbackRows
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.types import SearchRequest, SearchResult

NUMBERS = list(range(0, 60, 3))
REQUEST = SearchRequest(text="read a file")


def reader(indexed: Indexed, cache_bytes: int = 1 << 20) -> CandidateReader:
    fallback = FallbackRows(indexed.documents, CapabilityReader(Stemmer()))
    return CandidateReader(indexed.database, fallback, cache_bytes)


def remove_rows(indexed: Indexed) -> None:
    indexed.database.run(
        lambda connection: connection.execute("truncate toolscript.candidate_tool")
    )


def searching(indexed: Indexed) -> Callable[[], SearchResult]:
    """Returns what asks the same question each time."""
    return partial(indexed.ask, indexed.search(indexed.database), REQUEST)


def test_a_row_is_read_once(indexed: Indexed) -> None:
    cached, memory = reader(indexed), indexed.memory
    rows, problem = cached.read(memory, memory.snapshot, NUMBERS)
    assert sorted(row.number for row in rows) == NUMBERS
    assert not problem
    remove_rows(indexed)
    assert sorted(cached.read(memory, memory.snapshot, NUMBERS)[0]) == sorted(rows)
    assert cached.read(memory, memory.snapshot, [*NUMBERS, 1])[0] == rows, "that one is gone"
    assert cached.read(memory, memory.snapshot, []) == ([], "")


def test_the_rows_of_a_server_that_has_changed_are_read_again(indexed: Indexed) -> None:
    cached, memory = reader(indexed), indexed.memory
    rows, _ = cached.read(memory, memory.snapshot, NUMBERS)
    remove_rows(indexed)
    server = rows[0].server
    changed_at = memory.snapshot.changed_at + (np.arange(len(memory.servers)) == server)
    later, _ = cached.read(memory, replace(memory.snapshot, changed_at=changed_at), NUMBERS)
    assert later
    assert sorted(later) == sorted(row for row in rows if row.server != server)


@pytest.mark.parametrize("changed", ["removed", "vector", "new"])
def test_each_change_of_a_server_is_noted(indexed: Indexed, changed: str) -> None:
    candidates = DatabaseCandidates(
        indexed.database, ChangeFeed(indexed.database, "default"), "default"
    )
    candidates.open()
    tools = list(indexed.documents()["time-2"])
    vectors = {tool.id: indexed.made.vectors[tool.id] for tool in tools}
    server = "time-2"
    if changed == "removed":
        tools, vectors = tools[1:], {}
    elif changed == "vector":
        vectors[tools[0].id] = -vectors[tools[0].id]
    else:
        tools = [structs.replace(tools[0], id="new__tell", server="new")]
        server, vectors = "new", {}
    asyncio.run(candidates.replace_server(ServerTools(server, tools, vectors)))
    memory, before = indexed.memory, indexed.memory.snapshot
    indexed.database.run(memory.advance)
    after = memory.snapshot
    known = np.pad(before.changed_at, (0, len(memory.servers) - before.changed_at.size))
    numbers = np.flatnonzero(after.changed_at != known)
    assert [memory.servers[number] for number in numbers] == [server]
    assert set(after.changed_at[numbers]) == {after.position}


def test_some_rows_are_evicted_where_all_take_too_much_memory(indexed: Indexed) -> None:
    cached, memory = reader(indexed, cache_bytes=20_000), indexed.memory
    rows, _ = cached.read(memory, memory.snapshot, NUMBERS)
    assert len(rows) == len(NUMBERS)
    remove_rows(indexed)
    kept, _ = cached.read(memory, memory.snapshot, NUMBERS)
    assert 0 < len(kept) < len(NUMBERS)


def test_while_the_database_is_left_out_all_rows_are_built(indexed: Indexed) -> None:
    """What the gateway knows may be newer than what was read."""
    cached, memory = reader(indexed), indexed.memory
    rows, _ = cached.read(memory, memory.snapshot, NUMBERS)
    built, problem = cached.read(memory, memory.snapshot, NUMBERS, "it is away")
    assert problem == "it is away"
    assert [row.document for row in sorted(built)] == [row.document for row in sorted(rows)]
    assert all(row.mean == b"" for row in built)
    assert cached.read(memory, memory.snapshot, NUMBERS) == (rows, "")


def test_another_loading_of_the_index_reads_the_rows_anew(indexed: Indexed) -> None:
    """A standby that lacks the last changes gives their numbers to other tools."""
    cached, memory = reader(indexed), indexed.memory
    cached.read(memory, memory.snapshot, NUMBERS)
    loaded = indexed.loaded()
    remove_rows(indexed)
    assert cached.read(memory, memory.snapshot, NUMBERS)[0]
    assert cached.read(loaded, loaded.snapshot, NUMBERS) == ([], "")


def test_a_search_that_needs_no_row_says_that_the_database_is_away(
    indexed: Indexed, postgres: PostgresServer
) -> None:
    found = searching(indexed)
    before = found()
    assert not before.degraded
    postgres.stop()
    try:
        with pytest.raises(DatabaseUnavailableError):
            indexed.database.run(lambda connection: connection.fetchval("select 1"))
        after = found()
    finally:
        postgres.start()
    assert after.hits[0].document == before.hits[0].document
    assert after.degraded[0].startswith("index: the database does not answer: ")
    until(lambda: not found().degraded, "it answers again")
    assert found().hits == before.hits


def test_a_search_waits_a_few_seconds_for_a_database_that_hangs(
    indexed: Indexed, connect: Callable[[], Database]
) -> None:
    found = searching(indexed)
    with connect().transaction() as run:
        run(lambda c: c.execute("lock toolscript.candidate_tool in access exclusive mode"))
        assert found().degraded == (
            f"index: the database does not answer: no answer within {READ_TIMEOUT_S:g} s",
        )
    until(lambda: not found().degraded, "it answers again")


def test_a_search_that_nobody_waits_for_any_more_ends_at_once(
    indexed: Indexed, connect: Callable[[], Database]
) -> None:
    search, plan = indexed.search(indexed.database), ENGINE.plan(REQUEST)

    async def cancelled() -> bool:
        with anyio.move_on_after(0.2) as scope:
            await search.find(plan, indexed.memory, None)
        return scope.cancelled_caught

    with connect().transaction() as run:
        run(lambda c: c.execute("lock toolscript.candidate_tool in access exclusive mode"))
        assert asyncio.run(cancelled())
        until(
            lambda: indexed.database.run(lambda c: c.fetchval(WAITING)),
            "only its thread goes on for a while",
        )
