"""Reads the rows of candidates: from the database through a cache, or built from memory.

Many callers look for the same few tools, so that most rows have been read before. While the
database does not answer, rows are built from the tools that the gateway knows.
"""

from collections.abc import Sequence

import numpy as np

from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.candidate_rows import CandidateRow
from toolscript.postgres.database import READ_TIMEOUT_S, Database
from toolscript.postgres.fallback_rows import FallbackRows
from toolscript.postgres.lru_cache import LruCache
from toolscript.postgres.resident_index import IndexMemory, Snapshot

ROW_CACHE_BYTES = 32 << 20
_ROW_BYTES = 600
"""About how much a row takes besides its texts and its vector."""
_ROWS = """
select tool.number, document, words, lengths, purpose, executes, vector, server, mean
from toolscript.candidate_tool as tool join toolscript.candidate_server as of_tool
on of_tool.index_id = tool.index_id and of_tool.number = server
where tool.index_id = $1 and tool.number = any($2)
"""
_Key = tuple[int, int, int]
"""A generation of the index, a tool's number, and when its server has changed."""


class CandidateReader:
    """Reads rows, or has them built from the gateway's memory while the database does not answer.

    Any thread may ask.

    Args:
        database: Where the index is.
        fallback: Builds the rows of the tools that the gateway knows.
        cache_bytes: How much memory the cached rows may take.
    """

    def __init__(
        self, database: Database, fallback: FallbackRows, cache_bytes: int = ROW_CACHE_BYTES
    ) -> None:
        self._database = database
        self._fallback = fallback
        self._cache: LruCache[_Key, CandidateRow] = LruCache(cache_bytes, _size_of)

    def read(
        self, memory: IndexMemory, snapshot: Snapshot, numbers: Sequence[int], problem: str = ""
    ) -> tuple[list[CandidateRow], str]:
        """Returns the rows of some tools, and why they are not the database's; empty if they are.

        Blocks for `READ_TIMEOUT_S` at most. A tool that is gone has no row.

        Args:
            memory: The index.
            snapshot: The index as of one position.
            numbers: The tools, by places in the snapshot's arrays.
            problem: Why the database is not asked; empty to ask it.
        """
        if not problem:
            try:
                return self._read(memory, snapshot, numbers), ""
            except DatabaseUnavailableError as error:
                problem = str(error)
        return self._fallback.of(memory, numbers), problem

    def _read(
        self, memory: IndexMemory, snapshot: Snapshot, numbers: Sequence[int]
    ) -> list[CandidateRow]:
        servers = snapshot.server[np.array(numbers, np.intp)]
        changed_at: list[int] = snapshot.changed_at[servers].tolist()
        keys: dict[int, _Key] = {
            number: (snapshot.generation, number, position)
            for number, position in zip(numbers, changed_at, strict=True)
        }
        # After a failure what the database has is not known, until it answers again.
        cached = {} if self._database.problem else self._cache.get_many(keys.values())
        missing = [number for number, key in keys.items() if key not in cached]
        if not missing:
            if self._database.problem:
                raise DatabaseUnavailableError(self._database.unavailable)
            return list(cached.values())
        read = [
            CandidateRow(*row)
            for row in self._database.run(
                lambda connection: connection.fetch(_ROWS, memory.id, missing), READ_TIMEOUT_S
            )
        ]
        self._cache.add_many({keys[row.number]: row for row in read})
        return [*cached.values(), *read]


def _size_of(row: CandidateRow) -> int:
    texts = row.document, row.words, row.lengths, row.purpose, row.vector or b"", row.mean
    return _ROW_BYTES + sum(map(len, texts))
