"""Reads the rows of candidates, and keeps those that were read lately in memory.

What many people look for are the same few tools, so most rows that a search wants were read before.
"""

from collections.abc import Sequence

from toolscript.cluster.candidate_rows import CandidateRow
from toolscript.cluster.database import Database
from toolscript.cluster.fallback_rows import FallbackRows
from toolscript.cluster.lru_cache import LruCache
from toolscript.cluster.resident_index import IndexMemory, Snapshot
from toolscript.errors import DatabaseUnavailableError

MAX_BYTES = 32 << 20
_ROW_BYTES = 600
"""About how much a row takes besides its texts and its vector."""
_ROWS = """
select tool.number, document, words, lengths, purpose, executes, vector, server, mean
from toolscript.candidate_tool as tool join toolscript.candidate_server as of_tool
on of_tool.index_id = tool.index_id and of_tool.number = server
where tool.index_id = $1 and tool.number = any($2)
"""
_Key = tuple[int, int, int]
"""An index, the number of a tool, and the position of the last change of its server."""


class CandidateReader:
    """Reads rows from the database, or has them made while it does not answer. Any thread may ask.

    Args:
        database: Where the index is.
        fallback: Makes rows of the tools that the gateway knows.
        max_bytes: How much memory the rows that are kept may take.
    """

    def __init__(
        self, database: Database, fallback: FallbackRows, max_bytes: int = MAX_BYTES
    ) -> None:
        self._database = database
        self._fallback = fallback
        self._known: LruCache[_Key, CandidateRow] = LruCache(max_bytes, _size_of)

    def read(
        self, memory: IndexMemory, snapshot: Snapshot, numbers: Sequence[int], problem: str = ""
    ) -> tuple[list[CandidateRow], str]:
        """Returns the rows of some tools, and why the database was left out: empty if it was not.

        Blocks until the database has answered. Tools that are gone have no row.

        Args:
            memory: The index.
            snapshot: The index as of one position.
            numbers: Of the tools, each below the snapshot's number of tools.
            problem: Why the database is not asked; empty to ask it.
        """
        changed_at = snapshot.changed_at[snapshot.server[numbers]].tolist() if numbers else ()
        keys = {
            number: (memory.id, number, position)
            for number, position in zip(numbers, changed_at, strict=True)
        }
        known = self._known.found(keys.values())
        rows = list(known.values())
        missing = [number for number, key in keys.items() if key not in known]
        if missing and not problem:
            try:
                found = self._database.run(
                    lambda connection: connection.fetch(_ROWS, memory.id, missing)
                )
            except DatabaseUnavailableError as error:
                problem = str(error)
            else:
                read = [CandidateRow(*row) for row in found]
                self._known.add({keys[row.number]: row for row in read})
                return rows + read, ""
        if missing:
            rows += self._fallback.of(memory, missing)
        return rows, problem


def _size_of(row: CandidateRow) -> int:
    texts = row.document, row.words, row.lengths, row.purpose, row.vector or b"", row.mean
    return _ROW_BYTES + sum(map(len, texts))
