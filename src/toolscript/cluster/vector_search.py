"""Searches the vectors of an index in the database: finds the nearest, and compares some."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolscript.cluster.database import Database
from toolscript.cluster.driver import Connection
from toolscript.cluster.grant_filters import ToolFilter
from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Rows
from toolscript.retrieval.lexical.analyzer import Numbers

WIDTH, WIDTH_OF_ALL = 800, 1600
"""How many vectors of the graph are looked at for a question, and for it and its parts together."""
_DISTANCE = "embedding <#> (select ${}::real[]::halfvec)"
"""A subquery converts the question once. Without one that is done again for each vector, and takes
longer than to compare them."""
_NEAREST = """
select string_agg(int4send(number), ''::bytea) from (
select number from toolscript.candidate_vector_{index} {where}
order by {distance} limit {limit}) as nearest
"""
_COMPARED = """
select string_agg(int4send(number), ''::bytea), {products}
from toolscript.candidate_vector_{index} {where}
"""
_PRODUCT = "string_agg(float4send((-({}))::real), ''::bytea)"
_BY_GRAPH = """
set local jit = off; set local enable_sort = off; set local hnsw.ef_search = {};
set local hnsw.iterative_scan = relaxed_order
"""
_GRANTED = """
where server in (select unnest(${}::integer[])) or number in (select unnest(${}::integer[]))
"""
_SOME = "where number = any((select ${}::integer[])::integer[])"
"""As subqueries: the planner would look at each of the numbers."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The inner products of questions with some tools."""

    numbers: Numbers
    """The tools that have a vector, ascending."""
    products: Vectors
    """float32 [questions, numbers]."""

    def of(self, numbers: Rows) -> Vectors:
        """Returns the products of some tools, ascending: float32 [questions, numbers].

        NaN where a tool has no vector, or was not compared.
        """
        found = np.full((len(self.products), numbers.size), np.nan, np.float32)
        _, here, there = np.intersect1d(
            numbers, self.numbers, assume_unique=True, return_indices=True
        )
        found[:, here] = self.products[:, there]
        return found


@dataclass(frozen=True, slots=True)
class Nearest:
    """What is nearest to questions."""

    lists: list[Numbers]
    """Numbers of tools, for each question and filter."""
    compared: Compared | None
    """All tools of the first filter, where these are few."""


class VectorSearch:
    """Compares vectors in the database. Any event loop may ask.

    Args:
        database: Where the vectors are.
        listed: How many of the nearest are listed.
    """

    def __init__(self, database: Database, listed: int) -> None:
        self._database = database
        self._listed = listed

    async def nearest(
        self, index: int, questions: Vectors, filters: Sequence[ToolFilter]
    ) -> Nearest:
        """Returns the tools of each filter that are nearest to each question.

        Args:
            index: The id of the index.
            questions: float32 [questions, dim], unit rows.
            filters: Of which tools lists are taken.

        Raises:
            DatabaseUnavailableError: The database does not answer.
        """
        few = [each for each in filters if each.is_exact]
        many = [each for each in filters if not each.is_exact]
        lists, compared = await asyncio.gather(
            self._from_graph(index, questions, many),
            asyncio.gather(
                *(
                    self.compared(index, questions, None if each.is_everything else each.numbers)
                    for each in few
                )
            ),
        )
        for each in compared:
            lists += [each.numbers[_most(row, self._listed)] for row in each.products]
        return Nearest(lists, compared[0] if filters[0].is_exact else None)

    async def compared(self, index: int, questions: Vectors, numbers: Numbers | None) -> Compared:
        """Returns the inner products of questions with the tools of these ``numbers``.

        Args:
            index: The id of the index.
            questions: float32 [questions, dim], unit rows.
            numbers: Of tools; None for all.

        Raises:
            DatabaseUnavailableError: The database does not answer.
        """
        count = len(questions)
        products = ", ".join(_PRODUCT.format(_DISTANCE.format(n + 1)) for n in range(count))
        where = "" if numbers is None else _SOME.format(count + 1)
        query = _COMPARED.format(index=index, products=products, where=where)
        arguments = [*questions.tolist(), *([] if numbers is None else [numbers.tolist()])]

        async def compare(connection: Connection) -> Sequence[bytes | None]:
            await connection.execute("set local jit = off")
            return await connection.fetchrow(query, *arguments)

        found, *sums = await self._database.arun(compare)
        places = np.frombuffer(found or b"", ">i4").astype(np.int32)
        values = np.frombuffer(b"".join(each or b"" for each in sums), ">f4").astype(np.float32)
        order = np.argsort(places)
        return Compared(places[order], values.reshape(count, -1)[:, order])

    async def _from_graph(
        self, index: int, questions: Vectors, filters: Sequence[ToolFilter]
    ) -> list[Numbers]:
        """Returns the nearest of each question and filter by the graph of vectors."""
        if not filters:
            return []
        width = max(self._listed, min(WIDTH, WIDTH_OF_ALL // len(questions)))
        arguments: list[object] = []
        statements: list[str] = []
        for question in questions:
            arguments.append(question.tolist())
            distance = _DISTANCE.format(len(arguments))
            for each in filters:
                where = ""
                if not each.is_everything:
                    arguments += [each.servers, each.numbers.tolist()]
                    where = _GRANTED.format(len(arguments) - 1, len(arguments))
                statements.append(
                    _NEAREST.format(index=index, where=where, distance=distance, limit=self._listed)
                )

        async def find(connection: Connection) -> Sequence[Sequence[bytes | None]]:
            await connection.execute(_BY_GRAPH.format(width))
            return await connection.fetch(
                " union all ".join(map("({})".format, statements)), *arguments
            )

        rows = await self._database.arun(find)
        return [np.frombuffer(row[0] or b"", ">i4").astype(np.int32) for row in rows]


def _most(values: Vectors, limit: int) -> Rows:
    """Returns the places of the greatest values, below 0 or not."""
    if values.size <= limit:
        return np.arange(values.size)
    return np.argpartition(-values, limit)[:limit]
