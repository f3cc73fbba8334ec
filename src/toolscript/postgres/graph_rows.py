"""Adds counts to the tables of the graph in PostgreSQL, and reads them.

A writer locks the row with the totals first, and holds it until its transaction ends: so writers
come one after the other, and none waits for a row of another.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import astuple

from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts
from toolscript.graph.usage import LearnedVector, UsageChange
from toolscript.postgres.driver import Connection

Learned: TypeAlias = tuple[GraphDelta, UsageChange]

_ADD_TOTALS = """
insert into toolscript.graph_totals as known (gain, foreseen) values ($1, $2)
on conflict (id) do update set
    gain = known.gain + excluded.gain, foreseen = known.foreseen + excluded.foreseen
"""
_SET_TOTALS = "update toolscript.graph_totals set gain = $1, foreseen = $2"
_ADD_TOOLS = """
insert into toolscript.graph_tool as known (tool, weight, times, failed, failures)
select * from unnest($1::text[], $2::float8[], $3::int8[], $4::float8[], $5::int8[])
on conflict (tool) do update set
    weight = known.weight + excluded.weight, times = known.times + excluded.times,
    failed = known.failed + excluded.failed, failures = known.failures + excluded.failures
"""
_ADD_EDGES = """
insert into toolscript.graph_edge as known
    (source, target, next, later, next_times, later_times, stated, kinds)
select * from unnest($1::text[], $2::text[], $3::float8[], $4::float8[],
    $5::int8[], $6::int8[], $7::float8[], $8::int4[])
on conflict (source, target) do update set
    next = known.next + excluded.next, later = known.later + excluded.later,
    next_times = known.next_times + excluded.next_times,
    later_times = known.later_times + excluded.later_times,
    stated = greatest(known.stated, excluded.stated), kinds = known.kinds | excluded.kinds
"""
_KNOWN_USAGE = """
select tool, model, count, total from toolscript.graph_usage
where (tool, model) in (select * from unnest($1::text[], $2::text[]))
"""
_SET_USAGE = """
insert into toolscript.graph_usage (tool, model, count, total)
select * from unnest($1::text[], $2::text[], $3::float8[], $4::bytea[])
on conflict (tool, model) do update set count = excluded.count, total = excluded.total
"""


async def add(connection: Connection, change: GraphDelta, usage: UsageChange) -> None:
    """Adds changes in the transaction of a connection; one that is ``whole`` replaces the rows."""
    totals = astuple(change.totals)
    await connection.execute(_ADD_TOTALS, *totals)
    if change.whole:
        await connection.execute(_SET_TOTALS, *totals)
        await connection.execute("delete from toolscript.graph_tool")
        await connection.execute("delete from toolscript.graph_edge")
    if usage.whole:
        await connection.execute("delete from toolscript.graph_usage")
    tools = [(tool, *astuple(counts)) for tool, counts in change.tools.items()]
    await _insert(connection, _ADD_TOOLS, tools)
    edges = [(*pair, *astuple(counts)) for pair, counts in change.edges.items()]
    await _insert(connection, _ADD_EDGES, edges)
    if usage.learned:
        tools_asked, models = zip(*usage.learned, strict=True)
        merged = _usage(await connection.fetch(_KNOWN_USAGE, tools_asked, models))
        merged.merge(UsageChange(usage.learned))
        await _insert(
            connection, _SET_USAGE, [(*key, *_packed(merged.learned[key])) for key in usage.learned]
        )


async def _insert(connection: Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        await connection.execute(statement, *zip(*rows, strict=True))


async def read(connection: Connection) -> Learned:
    """Returns everything that is stored."""
    await connection.execute("set transaction isolation level repeatable read")
    totals = await connection.fetchrow("select gain, foreseen from toolscript.graph_totals")
    tools = await connection.fetch(
        "select tool, weight, times, failed, failures from toolscript.graph_tool order by tool"
    )
    edges = await connection.fetch(
        "select source, target, next, later, next_times, later_times, stated, kinds "
        "from toolscript.graph_edge order by source, target"
    )
    asked = await connection.fetch("select tool, model, count, total from toolscript.graph_usage")
    change = GraphDelta(
        {tool: ToolCounts(*counts) for tool, *counts in tools},
        {(source, target): EdgeCounts(*counts) for source, target, *counts in edges},
        GlobalCounts(*(totals or ())),
    )
    return change, _usage(asked)


def _usage(rows: Iterable[tuple[str, str, float, bytes]]) -> UsageChange:
    vectors = (
        (tool, model, count, np.frombuffer(total, "<f4")) for tool, model, count, total in rows
    )
    return UsageChange({(tool, model): (count, total) for tool, model, count, total in vectors})


def _packed(learned: LearnedVector) -> tuple[float, bytes]:
    count, total = learned
    return count, np.ascontiguousarray(total, "<f4").tobytes()


class _Event(msgspec.Struct, array_like=True):
    """What a gateway had learned, as releases stored it until the schema 3."""

    clears_graph: bool
    clears_usage: bool
    totals: GlobalCounts
    ids: list[str]
    """Of tools; the others name them by their place."""
    tools: Any
    edges: Any
    usage: list[tuple[int, str, float, bytes]]


async def take_over_events(connection: Connection) -> None:
    """Adds the events of older releases to the counts, and drops their tables."""
    rows = await connection.fetch(
        "select content from toolscript.graph_fold where catalogue = 'default' union all "
        "(select content from toolscript.graph_event where catalogue = 'default' order by xid, id)"
    )
    for (content,) in rows:
        event = msgspec.msgpack.decode(content, type=_Event)
        ids = event.ids
        change = GraphDelta(
            {ids[place]: ToolCounts(*counts) for place, *counts in event.tools},
            {(ids[s], ids[t]): EdgeCounts(*counts) for s, t, *counts in event.edges},
            event.totals,
            event.clears_graph,
        )
        asked = ((ids[place], model, count, total) for place, model, count, total in event.usage)
        await add(connection, change, UsageChange(_usage(asked).learned, event.clears_usage))
    await connection.execute("drop table toolscript.graph_event, toolscript.graph_fold")
