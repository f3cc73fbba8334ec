"""Compares the vectors of an index in PostgreSQL with questions, and finds the nearest ones."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from toolscript.cluster.database import Database
from toolscript.cluster.driver import Connection
from toolscript.cluster.grant_filters import ToolFilter
from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Rows
from toolscript.retrieval.lexical.analyzer import Numbers
from toolscript.retrieval.top_k import greatest_of_rows

WIDTH, WIDTH_OF_ALL = 800, 1600
"""How many vectors of the graph are looked at for a question, and for it and its parts together."""
AT_ONCE = 2
"""So many connections look at the parts of one question: with a grant each part takes long."""
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
    """Numbers of tools, a list for each question and filter."""
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
            filters: Of which tools lists are taken: all visible ones, and parts of these.

        Raises:
            DatabaseUnavailableError: The database does not answer.
        """
        visible, *others = filters
        if visible.is_exact:
            compared = await self.compared(index, questions, _numbers(visible))
            return Nearest([*self._of(compared, filters)], compared)
        many = [visible, *(each for each in others if not each.is_exact)]
        width = max(self._listed, min(WIDTH, WIDTH_OF_ALL // len(questions)))
        parts = [questions[first::AT_ONCE] for first in range(min(AT_ONCE, len(questions)))]
        found = await asyncio.gather(
            *(self._from_graph(index, part, many, width) for part in parts),
            *(self._few(index, questions, each) for each in others if each.is_exact),
        )
        return Nearest(list(chain.from_iterable(found)), None)

    async def _few(self, index: int, questions: Vectors, visible: ToolFilter) -> list[Numbers]:
        """Returns the nearest of each question among few tools."""
        compared = await self.compared(index, questions, _numbers(visible))
        return list(self._of(compared, [visible]))

    def _of(self, compared: Compared, filters: Sequence[ToolFilter]) -> Iterator[Numbers]:
        """Yields the nearest of each question and filter among tools that were compared."""
        for each in filters:
            # A tool may be newer than what is known of the filter.
            known = np.flatnonzero(compared.numbers < each.mask.size)
            seen = known[each.mask[compared.numbers[known]]]
            for rows in greatest_of_rows(compared.products[:, seen], self._listed):
                yield compared.numbers[seen[rows]]

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
        self, index: int, questions: Vectors, filters: Sequence[ToolFilter], width: int
    ) -> list[Numbers]:
        """Returns the nearest of each question and filter by the graph of vectors."""
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


def _numbers(visible: ToolFilter) -> Numbers | None:
    """Returns the numbers of few tools; None where these are all."""
    return None if visible.is_everything else visible.numbers
