"""Reads the candidates of a search from the index of a large catalogue."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import msgspec
import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.postgres.catalogue_index import schema_of, signature, vector_of
from toolscript.postgres.catalogue_writer import stems_of
from toolscript.postgres.database import READ_TIMEOUT_S, Database
from toolscript.postgres.driver import Connection
from toolscript.retrieval.base import CandidateQuery, StoredTools
from toolscript.types import Document, Grant

LOOKED_AT, MAX_LOOKED_AT = 4, 1_000
"""HNSW looks at so many times as many vectors as are listed, and at most at so many."""
SCANNED = 2_000
"""How many of the tools of each stem are looked at: those in which it counts most."""
SMALL = 5_000
"""Of so many granted tools all are looked at."""
NAMED_ALIKE = 100
"""How many tools of the same name are candidates: the first ones by id."""
NEAR_SPELLINGS = 40
_WIDE = re.compile(r"[*?\[]")

_IN_SCOPE = """
($1::integer[] is null or server = any($1) or number = any($2))
and ($3::integer[] is null or server = any($3))
"""
_NEAREST = """
select number from {schema}.tool where {scope}
order by vector <#> $4::text::halfvec({dim}) limit $5
"""
_NEAREST_OF_FEW = """
with few as materialized (select number, vector from {schema}.tool where {scope})
select number from few order by vector <#> $4::text::halfvec({dim}) limit $5
"""
_BEST_WORDS = """
with listed as materialized (
    select asked.stem, posting.number, posting.impact
    from unnest($4::text[]) as asked (stem) cross join lateral (
        select tool as number, impact from (
            select tool, tool as number, server, impact from {schema}.posting
            where posting.stem = asked.stem order by impact desc
        ) as posting where {scope} limit {scanned}
    ) as posting
)
"""
_BEST_WORDS_OF_FEW = """
with listed as materialized (
    select asked.stem, few.number, 1::real as impact
    from (
        select number, string_to_array(translate(stems, E'\\n', ' '), ' ') as stems
        from {schema}.tool where {scope}
    ) as few join unnest($4::text[]) as asked (stem) on asked.stem = any(few.stems)
)
"""
_RANKED = """
, sums as (
    select query, number, sum(weight * impact) as total
    from unnest($5::integer[], $6::text[], $7::real[]) as asked (query, stem, weight)
    join listed using (stem) group by query, number
)
select number, query from (
    select number, query, row_number() over (partition by query order by total desc) as place
    from sums
) as ranked where place <= ($8::integer[])[query + 1]
"""
_NAMED = """
select found.number from unnest($4::text[]) as asked (name) cross join lateral (
    (select number from {schema}.tool where tool.name = asked.name and {scope}
    order by id limit {alike})
    union
    (select number from {schema}.tool where qualified = asked.name and {scope}
    order by id limit {alike})
) as found
union select number from {schema}.tool where id = any($5) and {scope}
"""
_EXECUTORS = """
select number from {schema}.tool where executes and {scope} order by number limit $4
"""
_ROWS = """
select document, stems, purpose, executes, halfvec_send(vector), halfvec_send(mean)
from {schema}.tool join {schema}.server on server.number = tool.server
where tool.number = any($1)
"""
_NEAR = """
select spelling from unnest($1::text[]) as asked (signature) cross join lateral (
    select spelling from {schema}.{table}
    order by {table}.signature <%> asked.signature::bit(256) limit {near}
) as near
"""


@dataclass(frozen=True, slots=True)
class Scope:
    """The tools among which candidates are looked for."""

    granted: list[int] | None = None
    """The numbers of servers; None for all."""
    tools: Sequence[int] = ()
    """The numbers of further tools."""
    requested: list[int] | None = None
    """The numbers of the servers that are asked about; None for all."""
    size: int | None = None
    """How many tools there are at most; None if that is not known."""

    @property
    def arguments(self) -> tuple[object, ...]:
        """The first arguments of a statement."""
        return self.granted, list(self.tools), self.requested

    @property
    def is_small(self) -> bool:
        """Whether all tools are looked at."""
        return self.size is not None and self.size <= SMALL


class CatalogueReader:
    """Reads from the database. Any thread may ask, and waits.

    Args:
        database: Where the index is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, query: CandidateQuery) -> StoredTools:
        """See `StoredCandidates.find`."""
        schema = schema_of(query.statistics.index)
        scopes = self._scopes(schema, query)
        works = [
            partial(work, schema, query, scope)
            for scope in scopes
            for work in (_best_words, _find_named)
        ]
        if query.vectors is not None:
            works += [
                partial(_nearest, schema, scope, vector, limit)
                for scope in scopes
                for vector, limit in zip(query.vectors, query.limits, strict=True)
            ]
        lists = self._database.run_together(works, READ_TIMEOUT_S)
        numbers = sorted({number for rows in lists for number in rows})
        read = partial(_read, schema, numbers, query.statistics.common.size)
        return self._database.run(read, READ_TIMEOUT_S)

    def _scopes(self, schema: str, query: CandidateQuery) -> list[Scope]:
        """Returns the tools that the caller may see, and those of the servers it asks about."""
        request = query.request
        if request.grant.is_everything and not request.servers:
            return [Scope()]
        work = partial(_scopes, schema, request.grant, request.servers)
        return self._database.run(work, READ_TIMEOUT_S)

    def near(self, index: int, table: str, spellings: Iterable[str]) -> list[str]:
        """Returns the spellings in a table that may be nearest to some."""
        text = _NEAR.format(schema=schema_of(index), table=table, near=NEAR_SPELLINGS)
        bits = [signature(each).as_string().replace(" ", "") for each in spellings]
        if not bits:
            return []
        rows = self._database.run(lambda connection: connection.fetch(text, bits), READ_TIMEOUT_S)
        return [row[0] for row in rows]

    def existing(self, index: int, ids: Iterable[str]) -> set[str]:
        """Returns those ids that tools have."""
        text = f"select id from {schema_of(index)}.tool where id = any($1)"  # noqa: S608 - ours
        wanted = sorted(ids)
        rows = self._database.run(lambda connection: connection.fetch(text, wanted), READ_TIMEOUT_S)
        return {row[0] for row in rows}


async def _scopes(
    schema: str, grant: Grant, requested: Sequence[str], connection: Connection
) -> list[Scope]:
    visible = Scope()
    limits = [each for each in (grant, *grant.within) if not each.is_everything]
    if limits:
        # One limit finds the candidates; the search drops those that another one forbids.
        grant = limits[-1]
        servers = await _matching(connection, f"{schema}.server", "name", "size", grant.servers)
        tools = await _matching(connection, f"{schema}.tool", "id", "1", grant.tools)
        size = sum(size for _, size in servers) + len(tools)
        visible = Scope([n for n, _ in servers], [n for n, _ in tools], None, size)
    if not requested:
        return [visible]
    servers = await _matching(connection, f"{schema}.server", "name", "size", requested)
    size = sum(size for _, size in servers)
    return [visible, Scope(visible.granted, visible.tools, [n for n, _ in servers], size)]


async def _matching(
    connection: Connection, table: str, column: str, size: str, patterns: Sequence[str]
) -> list[Any]:
    """Returns the numbers and sizes of the rows whose ``column`` matches a pattern."""
    exact = [pattern for pattern in patterns if not _WIDE.search(pattern)]
    wide = "|".join(_regex(pattern) for pattern in patterns if _WIDE.search(pattern))
    if not patterns:
        return []
    condition = f"{column} = any($1)" + (f" or {column} ~ $2" if wide else "")
    text = f"select number, {size} from {table} where {condition}"  # noqa: S608 - ours
    return await connection.fetch(text, exact, *([f"^(?:{wide})$"] if wide else []))


def _regex(pattern: str) -> str:
    """Returns the expression of PostgreSQL's that a pattern with ``*`` and ``?`` stands for."""
    wild = {r"\*": ".*", r"\?": ".", r"\[!": "[^", r"\[": "[", r"\]": "]"}
    return re.sub(r"\\(?:\*|\?|\[!|\[|\])", lambda each: wild[each[0]], re.escape(pattern))


Numbers: TypeAlias = list[int]


async def _nearest(
    schema: str, scope: Scope, vector: Vectors, limit: int, connection: Connection
) -> Numbers:
    """Returns the tools whose vectors are nearest to that of a query."""
    await connection.execute(
        f"set local hnsw.ef_search = {min(LOOKED_AT * limit, MAX_LOOKED_AT)}; "
        "set local hnsw.iterative_scan = relaxed_order"
    )
    text = _NEAREST_OF_FEW if scope.is_small else _NEAREST
    return [
        row[0]
        for row in await connection.fetch(
            text.format(schema=schema, scope=_IN_SCOPE, dim=vector.size),
            *scope.arguments,
            _text_of(vector),
            limit,
        )
    ]


def _text_of(vector: Vectors) -> str:
    return str(vector.astype(float).round(5).tolist())


async def _best_words(
    schema: str, query: CandidateQuery, scope: Scope, connection: Connection
) -> Numbers:
    """Returns the tools with the best words of each query."""
    asked = [
        (place, stem, weight)
        for place, weights in enumerate(query.weights)
        for stem, weight in weights.items()
    ]
    if not asked:
        return []
    text = _BEST_WORDS_OF_FEW if scope.is_small else _BEST_WORDS
    places, stems, weights = zip(*asked, strict=True)
    rows = await connection.fetch(
        (text + _RANKED).format(schema=schema, scope=_IN_SCOPE, scanned=SCANNED),
        *scope.arguments,
        sorted({*stems}),
        *(places, stems, weights, query.limits),
    )
    return [row[0] for row in rows]


async def _find_named(
    schema: str, query: CandidateQuery, scope: Scope, connection: Connection
) -> Numbers:
    """Returns the tools that are candidates whatever the lists say."""
    rows: list[Any] = []
    if query.names or query.ids:
        rows += await connection.fetch(
            _NAMED.format(schema=schema, scope=_IN_SCOPE, alike=NAMED_ALIKE),
            *scope.arguments,
            sorted(query.names),
            sorted(query.ids),
        )
    if query.executors and query.vectors is None:
        text = _EXECUTORS.format(schema=schema, scope=_IN_SCOPE)
        rows += await connection.fetch(text, *scope.arguments, query.limits[0])
    elif query.executors and query.vectors is not None:
        vector, condition = query.vectors[0], f"executes and {_IN_SCOPE}"
        text = _NEAREST_OF_FEW.format(schema=schema, scope=condition, dim=vector.size)
        arguments = *scope.arguments, _text_of(vector), query.limits[0]
        rows += await connection.fetch(text, *arguments)
    return [row[0] for row in rows]


async def _read(schema: str, numbers: Numbers, dim: int, connection: Connection) -> StoredTools:
    """Returns tools; one that is gone by now is left out."""
    rows = await connection.fetch(_ROWS.format(schema=schema), numbers)
    stems = [stems_of(row[1]) for row in rows]
    vectors, means = (np.zeros((len(rows), dim), np.float32) for _ in "ab")
    for place, row in enumerate(rows):
        if row[4] is not None and row[5] is not None:
            vectors[place], means[place] = vector_of(row[4]), vector_of(row[5])
    of_names = sorted({stem for fields in stems for stem in fields[0]})
    frequencies = await connection.fetch(
        f"select stem, frequency from {schema}.stem where stem = any($1)",  # noqa: S608 - ours
        of_names,
    )
    return StoredTools(
        [msgspec.msgpack.decode(row[0], type=Document) for row in rows],
        stems,
        [tuple(row[2].split("\n")) if row[2] else () for row in rows],
        [row[3] for row in rows],
        vectors,
        means,
        dict(map(tuple, frequencies)),
    )
