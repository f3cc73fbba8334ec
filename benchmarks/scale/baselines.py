"""Searches to compare times with: they find the 200 vectors nearest to a question, nothing else.

A machine's speed changes from hour to hour; the ratio of two times measured together does not.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache

import numpy as np

from benchmarks.quality.own import encoder
from toolscript.cluster.database import Database
from toolscript.cluster.grant_filters import ToolFilter
from toolscript.cluster.resident_index import IndexRow
from toolscript.cluster.vector_search import VectorSearch
from toolscript.embedding.base import Vectors

NEAREST = 200
Baseline = Callable[[str], Awaitable[None]]
"""Finds the nearest of a question's text. What it finds is not looked at."""


@cache
def _vector(text: str) -> Vectors:
    """Returns the vector of a question, embedded once."""
    return encoder().query(text)


def numpy_baseline(parts: Sequence[Vectors]) -> Baseline:
    """Returns NumPy's product of every vector and the question, and the greatest of it.

    Args:
        parts: The vectors of all tools: float32 [n, dim], several times.
    """

    async def nearest(text: str) -> None:
        cosines = np.concatenate([rows @ _vector(text) for rows in parts])
        np.argpartition(-cosines, min(NEAREST, cosines.size - 1))

    return nearest


async def pgvector_baseline(database: Database) -> Baseline:
    """Returns a search of the index's vectors by pgvector, with the settings of our searches."""
    row = await database.arun(lambda connection: IndexRow.current(connection, "default"))
    search = VectorSearch(database, NEAREST)
    none = np.empty(0, np.int32)
    everything = ToolFilter(none.astype(np.bool_), [], none, is_exact=False, is_everything=True)

    async def nearest(text: str) -> None:
        await search.nearest(row.id, _vector(text)[None], [everything])

    return nearest
