"""Writes to the index of a large catalogue which tools a server has from now on."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from toolscript.postgres.catalogue_index import (
    SERVER_COLUMNS,
    TOOL_COLUMNS,
    IndexRow,
    copy_rows,
    digest_of,
    signature,
    tool_row,
)
from toolscript.postgres.driver import Connection
from toolscript.retrieval.base import AnalyzedTool


async def replace_server(
    connection: Connection, row: IndexRow, server: str, tools: Sequence[AnalyzedTool]
) -> None:
    """Replaces the tools of a server, in the transaction of a connection.

    Args:
        connection: Has locked the index's row.
        row: The index's row.
        server: The server's name.
        tools: All its tools; none removes it.
    """
    schema = row.schema
    former = await connection.fetch(
        f"delete from {schema}.tool using {schema}.server "  # noqa: S608 - ours
        "where server.name = $1 and tool.server = server.number "
        "returning tool.number, stems, tool.openings",
        server,
    )
    mean = next((tool.mean for tool in tools if tool.mean is not None), None)
    await connection.execute(f"delete from {schema}.server where name = $1", server)  # noqa: S608 - ours
    if tools:
        [number] = await _next_numbers(connection, schema, "server", 1)
        new = (number, server, len(tools), digest_of(row.model, tools), mean)
        await copy_rows(connection, schema, "server", SERVER_COLUMNS, [new])
        await _add_tools(connection, schema, number, tools)
    stems: Counter[str] = Counter()
    openings: Counter[str] = Counter()
    lengths = list(row.lengths)
    for sign, (fields, opening) in [
        *((-1, _parse_row(each)) for each in former),
        *((1, (tool.stems, tool.openings)) for tool in tools),
    ]:
        for stem in {stem for each in fields for stem in each}:
            stems[stem] += sign
        for stem in opening:
            openings[stem] += sign
        for place, each in enumerate(fields):
            lengths[place] += sign * len(each)
    await _remove_postings(connection, schema, former)
    await _count(connection, schema, stems, openings)
    await connection.execute(
        "update toolscript.catalogue_index set position = position + 1, size = $2, lengths = $3 "
        "where id = $1",
        *(row.id, row.size + len(tools) - len(former), lengths),
    )


def _parse_row(row: Any) -> tuple[list[list[str]], list[str]]:
    return stems_of(row["stems"]), row["openings"].split()


def stems_of(stored: str) -> list[list[str]]:
    """Returns the stems of a tool by field."""
    return [line.split(" ") if line else [] for line in stored.split("\n")]


async def _add_tools(
    connection: Connection, schema: str, server: int, tools: Sequence[AnalyzedTool]
) -> None:
    numbers = await _next_numbers(connection, schema, "tool", len(tools))
    numbered = list(zip(numbers, tools, strict=True))
    await copy_rows(
        connection, schema, "tool", TOOL_COLUMNS, [tool_row(n, server, t) for n, t in numbered]
    )
    postings = [(s, i, n, server) for n, tool in numbered for s, i in tool.impacts.items()]
    columns = ("stem", "impact", "tool", "server")
    await copy_rows(connection, schema, "posting", columns, postings)
    spellings = {"word": {w for t in tools for w in t.words}, "name": {t.name for t in tools}}
    for table, found in spellings.items():
        await connection.executemany(
            f"insert into {schema}.{table} values ($1, $2) on conflict do nothing",  # noqa: S608 - ours
            [(spelling, signature(spelling)) for spelling in sorted(found)],
        )


async def _next_numbers(connection: Connection, schema: str, table: str, count: int) -> list[int]:
    rows = await connection.fetch(
        f"select nextval(pg_get_serial_sequence('{schema}.{table}', 'number'))::integer "  # noqa: S608 - ours
        "from generate_series(1, $1)",
        count,
    )
    return [row[0] for row in rows]


async def _remove_postings(connection: Connection, schema: str, former: Sequence[Any]) -> None:
    stems = {stem for row in former for each in stems_of(row["stems"]) for stem in each}
    await connection.execute(
        f"delete from {schema}.posting where stem = any($1) and tool = any($2)",  # noqa: S608 - ours
        *(sorted(stems), [row["number"] for row in former]),
    )


async def _count(
    connection: Connection, schema: str, stems: Counter[str], openings: Counter[str]
) -> None:
    changed = sorted(stem for stem in {*stems, *openings} if stems[stem] or openings[stem])
    await connection.execute(
        f"insert into {schema}.stem as known "  # noqa: S608 - ours
        "select * from unnest($1::text[], $2::integer[], $3::integer[]) on conflict (stem) "
        "do update set frequency = known.frequency + excluded.frequency, "
        "openings = known.openings + excluded.openings",
        *(changed, [stems[stem] for stem in changed], [openings[stem] for stem in changed]),
    )
