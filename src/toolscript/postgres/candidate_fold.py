"""Merges the changes of a large catalogue into its posting blocks."""

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolscript.postgres.candidate_rows import copy_counts, copy_rows
from toolscript.postgres.driver import Connection
from toolscript.postgres.index_records import IndexChange, IndexRow
from toolscript.postgres.posting_blocks import Entries, blocks_of, entries_of, sorted_entries
from toolscript.postgres.word_counts import WordCounts
from toolscript.retrieval.lexical.analyzer import Stemmer, Vocabulary

_FOLDING = 0x746F6F6C
"""For `pg_try_advisory_xact_lock`, with the id of the index."""


async def fold(connection: Connection, row: IndexRow, stemmer: Stemmer) -> int:
    """Merges the changes into the posting blocks, in the transaction of a connection.

    Changes that are made in the meantime are not among them, and stay. Returns the number of
    changes that were merged; 0 if another process merges them.
    """
    if not await connection.fetchval("select pg_try_advisory_xact_lock($1, $2)", _FOLDING, row.id):
        return 0
    row = await IndexRow.by_id(connection, row.id)  # another process may have merged some since
    if not row.id:
        return 0
    vocabulary = Vocabulary(stemmer)
    counts = await WordCounts.folded(connection, row, vocabulary)
    contents = await connection.fetch(
        "select content from toolscript.candidate_change "
        "where index_id = $1 and position between $2 and $3 order by position",
        *(row.id, row.folded_position + 1, row.position),
    )
    changes = [msgspec.msgpack.decode(content, type=IndexChange) for (content,) in contents]
    for word in chain.from_iterable(change.words for change in changes):
        _ = vocabulary[word]
    counts.grow()
    removed = {tool.number for change in changes for tool in change.removed}
    tools = [tool for change in changes for tool in change.added]
    for change in changes:
        counts.count([tool.token_ids for tool in change.removed], -1)
        counts.count([tool.token_ids for tool in change.added], 1)
    averages = counts.lengths / max(1, counts.size)
    kept = [tool for tool in tools if tool.number not in removed]
    added, places, impacts = entries_of([t.token_ids for t in kept], vocabulary, averages)
    numbers = np.array([tool.number for tool in kept], np.int32)
    gone = [t.token_ids for change in changes for t in change.removed]
    touched = set(added.tolist()) | {
        int(stem) for tool in gone for stem in vocabulary.stem_of[tool.numbers].tolist()
    }
    later = added, numbers[places], impacts
    dropped = np.array(sorted(removed), np.int32)
    for stems_ in _chunks(sorted(touched)):
        await _fold_stems(connection, row.id, stems_, later, dropped)
    await _replace_counts(connection, row.id, counts)
    await connection.execute(
        "delete from toolscript.candidate_change where index_id = $1 and position <= $2",
        *(row.id, row.position),
    )
    await connection.execute(
        "update toolscript.candidate_index set folded_position = $2, folded_number = $3, "
        "folded_size = $4, folded_lengths = $5 where id = $1",
        *(row.id, row.position, row.next_number, counts.size, counts.lengths.tolist()),
    )
    return len(changes)


async def _fold_stems(
    connection: Connection,
    index_id: int,
    stems: Sequence[int],
    later: Entries,
    dropped: NDArray[np.int32],
) -> None:
    """Writes the blocks of some stems again, with later entries and without dropped tools."""
    rows = await connection.fetch(
        "delete from toolscript.candidate_posting where index_id = $1 and stem = any($2) "
        "returning stem, block, tools, impacts",
        *(index_id, stems),
    )
    parts: list[Entries] = []
    for stem, _, tools, impacts in sorted(rows, key=lambda each: (each[0], each[1])):
        numbers, values = np.frombuffer(tools, "<i4"), np.frombuffer(impacts, "<f2")
        kept = ~np.isin(numbers, dropped)
        parts.append((np.full(int(kept.sum()), stem, np.int32), numbers[kept], values[kept]))
    among = np.isin(later[0], stems)
    parts.append((later[0][among], later[1][among], later[2][among]))
    blocks = ((index_id, *block) for block in blocks_of(sorted_entries(parts)))
    await copy_rows(connection, "posting", ("stem", "block", "tools", "impacts"), blocks)


async def _replace_counts(connection: Connection, index_id: int, counts: WordCounts) -> None:
    for table in ("word", "stem"):
        await connection.execute(
            f"delete from toolscript.candidate_{table} where index_id = $1",  # noqa: S608 - ours
            index_id,
        )
    await copy_counts(connection, index_id, counts)


def _chunks(stems: Sequence[int], size: int = 5_000) -> Iterator[Sequence[int]]:
    return (stems[first : first + size] for first in range(0, len(stems), size))
