"""Searches to compare times with: they find the 200 vectors nearest to a question, nothing else.

A machine's speed changes from hour to hour; the ratio of two times measured together does not.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import cache

import numpy as np

from benchmarks.quality.own import encoder
from toolscript.cluster.database import Database
from toolscript.cluster.driver import Connection
from toolscript.cluster.resident_index import IndexRow
from toolscript.cluster.vector_search import WIDTH
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
    """Returns a search of the index's vectors by pgvector, as wide as one of ours at its widest."""
    row = await database.arun(lambda connection: IndexRow.current(connection, "default"))
    statement = (
        f"select number from toolscript.candidate_vector_{row.id} "  # noqa: S608 - a number
        f"order by embedding <#> (select $1::real[]::halfvec) limit {NEAREST}"
    )

    async def nearest(text: str) -> None:
        question = _vector(text).tolist()

        async def find(connection: Connection) -> None:
            await connection.execute(f"set local hnsw.ef_search = {WIDTH}")
            await connection.fetch(statement, question)

        await database.arun(find)

    return nearest
