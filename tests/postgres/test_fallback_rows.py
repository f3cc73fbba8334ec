"""While the database is away, searches find what a gateway knows."""

import numpy as np
from msgspec.structs import replace

from tests.indexed_tools import Indexed
from tests.many_tools import asked, grants
from toolscript.postgres.candidate_rows import vectors_of
from toolscript.postgres.fallback_rows import FallbackRows
from toolscript.postgres.grant_masks import GrantMasks
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import Stemmer

ROWS = """
select tool.number, document, words, lengths, purpose, executes, vector, server
from toolscript.candidate_tool as tool order by number
"""


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
