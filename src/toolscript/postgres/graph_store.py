"""Appends what each gateway learns about the tool graph to PostgreSQL; the others read it.

Counts only add up, so the order of events does not matter; only those that clear the graph do not
commute, and what comes before them counts for nothing. Old events are summed up into one row.
"""

import logging
import secrets
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import astuple

from toolscript.errors import DatabaseUnavailableError
from toolscript.graph.base import Everything, LearnedCounts
from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts
from toolscript.graph.graph_data import MAX_TOOLS, GraphData
from toolscript.graph.tool_graph import MAX_EDGES
from toolscript.graph.usage import UsageChange
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.schema import CATALOGUE

log = logging.getLogger(__name__)
STORE = "graph"
"""The name of the store in the change feed."""
MAX_EVENTS = 500
"""So many old events are summed up."""
KEPT_S = 60.0
"""Events are not summed up before, so that gateways have read them one by one until then."""
_FOLD_EVERY = 50
"""After so many events of its own a gateway looks whether events are to be summed up."""
_ALL = ""
"""The name in the feed of an event that every gateway has to take over, also who wrote it."""
_LOCK = 0x67726170  # "grap", for pg_try_advisory_xact_lock
_ONE_SNAPSHOT = "set transaction isolation level repeatable read"
_NOT_DURABLE = "set local synchronous_commit = off"
_INSERT = "insert into toolscript.graph_event (catalogue, replica, content) values ($1, $2, $3)"
_HORIZON = """
select pg_snapshot_xmin(pg_current_snapshot())::text as xmin,
    (select xid::text from toolscript.graph_fold where catalogue = $1) as folded
"""
_NEWS = """
select replica, content from toolscript.graph_event
where catalogue = $1 and xid >= $2::text::xid8 and xid < $3::text::xid8 order by xid, id
"""
_ALL_EVENTS = """
select content from toolscript.graph_event
where catalogue = $1 and (xid < $2::text::xid8 or replica = $3) order by xid, id
"""
_FOLDED = "select content from toolscript.graph_fold where catalogue = $1"
_BOUND = """
select least(pg_snapshot_xmin(pg_current_snapshot()), (
    select xid from toolscript.graph_event
    where catalogue = $1 and written_at > clock_timestamp() - make_interval(secs => $2)
    order by xid limit 1
))::text
"""
_OLD = "from toolscript.graph_event where catalogue = $1 and xid < $2::text::xid8"
_FOLD = """
insert into toolscript.graph_fold (catalogue, xid, content) values ($1, $2::text::xid8, $3)
on conflict (catalogue) do update set xid = excluded.xid, content = excluded.content
"""

Learned: TypeAlias = tuple[GraphDelta, UsageChange]


class DatabaseGraphStore:
    """See `GraphStorage`.

    Events that were written when the database was lost may be written twice: whether a commit
    that was under way was made is not known then.

    Args:
        database: Where the graph is.
        feed: Tells of changes.
    """

    adds_only = True

    def __init__(self, database: Database, feed: ChangeFeed) -> None:
        self._database = database
        self._feed = feed
        self._replica = secrets.token_hex(8)
        """Tells the events of this process, whose graph has them already, from those of others."""
        self._position: int | None = None
        """The events of every transaction before this one are loaded."""
        self._added = 0
        self._warned = ""

    def subscribe(self, changed: Callable[[], None]) -> None:
        """See `GraphStorage`."""

        async def told(names: frozenset[str] | None) -> None:
            if names is None:
                self._position = None  # single events may be gone
            if names is None or names - {self._replica}:
                changed()

        self._feed.subscribe(STORE, told)

    def load(self, graph: LearnedCounts[GraphDelta], usage: LearnedCounts[UsageChange]) -> bool:
        """See `GraphStorage`."""
        try:
            position, is_everything, (change, learned) = self._database.run(self._read)
        except DatabaseUnavailableError as error:
            self._warn("read", error)
            return False
        if is_everything:
            graph.rebase(change)
            usage.rebase(learned)
        else:
            if change:
                graph.merge(change)
            if learned:
                usage.merge(learned)
        self._position = position
        return True

    def add(
        self, change: GraphDelta, usage: UsageChange, everything: Everything | None = None
    ) -> bool:
        """See `GraphStorage`. An event that clears the graph is durable when this returns."""
        del everything
        try:
            self._database.run(lambda connection: self._append(connection, (change, usage)))
        except DatabaseUnavailableError as error:
            self._warn("written", error)
            return False
        if self._warned:
            log.warning("the graph in the database is written again")
        self._warned = ""
        if self._added % _FOLD_EVERY == 0:
            self._fold()
        self._added += 1
        return True

    async def _append(self, connection: Connection, learned: Learned) -> None:
        clears = any(each.whole for each in learned)
        if not clears:
            await connection.execute(_NOT_DURABLE)
        await connection.execute(_INSERT, CATALOGUE, self._replica, encoded(learned))
        await self._feed.add(connection, STORE, _ALL if clears else self._replica)

    async def _read(self, connection: Connection) -> tuple[int, bool, Learned]:
        """Returns up to which transaction is read, whether that is everything, and what it is.

        It is everything at first, and where single events are gone, or one has cleared the graph.
        """
        await connection.execute(_ONE_SNAPSHOT)
        xmin, folded = await connection.fetchrow(_HORIZON, CATALOGUE)
        position = int(xmin)
        if self._position is not None and int(folded or 0) <= self._position:
            rows = await connection.fetch(_NEWS, CATALOGUE, str(self._position), xmin)
            events = [(row["replica"], decoded(row["content"])) for row in rows]
            if not any(part.whole for _, event in events for part in event):
                return position, False, total(e for who, e in events if who != self._replica)
        contents = [await connection.fetchval(_FOLDED, CATALOGUE)] if folded else []
        rows = await connection.fetch(_ALL_EVENTS, CATALOGUE, xmin, self._replica)
        contents += [row["content"] for row in rows]
        return position, True, total(map(decoded, contents))

    def _fold(self) -> None:
        try:
            self._database.run(lambda connection: fold(connection, CATALOGUE))
        except DatabaseUnavailableError as error:
            log.debug("the graph's events cannot be summed up now: %s", error)

    def _warn(self, what: str, error: Exception) -> None:
        """Logs why the graph cannot be used, once until it can be written again."""
        level = logging.DEBUG if self._warned else logging.WARNING
        log.log(level, "the graph in the database cannot be %s now: %s", what, error)
        self._warned = str(error)


async def fold(
    connection: Connection, catalogue: str, *, at_least: int = MAX_EVENTS, kept_s: float = KEPT_S
) -> int:
    """Sums up old events and deletes them; returns how many.

    Does nothing while another process does the same.

    Args:
        connection: Has the transaction.
        catalogue: Whose events.
        at_least: Fewer events are left alone.
        kept_s: How old an event must be, in seconds.
    """
    await connection.execute("set local idle_in_transaction_session_timeout = '5s'")
    lock = "select pg_try_advisory_xact_lock($1, hashtext($2))"
    if not await connection.fetchval(lock, _LOCK, catalogue):
        return 0
    old = catalogue, await connection.fetchval(_BOUND, catalogue, kept_s)
    if await connection.fetchval(f"select count(*) {_OLD}", *old) < max(1, at_least):
        return 0
    rows = await connection.fetch(f"select content {_OLD} order by xid, id", *old)
    folded = await connection.fetchval(_FOLDED, catalogue)
    contents = [*([] if folded is None else [folded]), *(row["content"] for row in rows)]
    await connection.execute(_FOLD, *old, encoded(_limit(total(map(decoded, contents)))))
    await connection.execute(f"delete {_OLD}", *old)
    return len(rows)


def total(events: Iterable[Learned]) -> Learned:
    """Returns the sum of events; one that is ``whole`` replaces those before it."""
    change, usage = GraphDelta(), UsageChange()
    for learned, asked in events:
        change.add(learned)
        usage.merge(asked)
    return change, usage


def _limit(learned: Learned) -> Learned:
    """Returns the same with no more than a graph in memory has."""
    change, usage = learned
    if len(change.edges) > MAX_EDGES or len(change.tools) > MAX_TOOLS:
        data = GraphData()
        data.add(change)
        if data.edge_count > MAX_EDGES:
            data.prune(MAX_EDGES)
        change = data.as_delta()
    return change, UsageChange(dict(islice(usage.learned.items(), MAX_TOOLS)))


class _Event(msgspec.Struct, array_like=True):
    """A `Learned` as it is stored."""

    clears_graph: bool
    clears_usage: bool
    totals: GlobalCounts
    ids: list[str]
    """Of tools; the others name them by their place."""
    tools: list[tuple[int, float, int, float, int]]
    edges: list[tuple[int, int, float, float, int, int, float, int]]
    usage: list[tuple[int, str, float, bytes]]
    """Tool, model, number of questions, and the sum of their vectors as float32."""


def encoded(learned: Learned) -> bytes:
    """Returns what `decoded` returns, as bytes."""
    change, usage = learned
    places: dict[str, int] = {}

    def place(tool: str) -> int:
        return places.setdefault(tool, len(places))

    tools: Any = [(place(tool), *astuple(counts)) for tool, counts in change.tools.items()]
    edges: Any = [
        (place(source), place(target), *astuple(counts))
        for (source, target), counts in change.edges.items()
    ]
    asked = [
        (place(tool), model, count, np.ascontiguousarray(vector, "<f4").tobytes())
        for (tool, model), (count, vector) in usage.learned.items()
    ]
    event = _Event(change.whole, usage.whole, change.totals, list(places), tools, edges, asked)
    return msgspec.msgpack.encode(event)


def decoded(content: bytes) -> Learned:
    """Returns what is stored in an event or in a sum of them."""
    event = msgspec.msgpack.decode(content, type=_Event)
    ids = event.ids
    tools: Any = event.tools
    edges: Any = event.edges
    change = GraphDelta(
        {ids[place]: ToolCounts(*counts) for place, *counts in tools},
        {(ids[source], ids[target]): EdgeCounts(*counts) for source, target, *counts in edges},
        event.totals,
        event.clears_graph,
    )
    usage = UsageChange(whole=event.clears_usage)
    for place, model, count, vector in event.usage:
        usage.learned[ids[place], model] = count, np.frombuffer(vector, "<f4")
    return change, usage
