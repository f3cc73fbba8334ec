"""Keeps the tool graph in PostgreSQL: each gateway adds its counts, and reads those of others."""

import logging
import secrets
from collections.abc import Callable

from toolscript.errors import DatabaseUnavailableError
from toolscript.graph.base import Everything, LearnedCounts
from toolscript.graph.counts import GraphDelta
from toolscript.graph.usage import UsageChange
from toolscript.postgres import graph_rows
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection

log = logging.getLogger(__name__)
STORE = "graph"
"""The name of the store in the change feed."""
_NOT_DURABLE = "set local synchronous_commit = off"


class DatabaseGraphStore:
    """See `GraphStorage`.

    Counts that were written when the database was lost may be written twice: whether a commit
    that was under way was made is not known then.

    Args:
        database: Where the graph is.
        feed: Tells of changes.
    """

    def __init__(self, database: Database, feed: ChangeFeed) -> None:
        self._database = database
        self._feed = feed
        self._replica = secrets.token_hex(8)
        """Tells the changes of this process, whose graph has them already, from those of others."""
        self._warned = ""

    def subscribe(self, changed: Callable[[], None]) -> None:
        """See `GraphStorage`."""

        async def told(names: frozenset[str] | None) -> None:
            if names is None or names - {self._replica}:
                changed()

        self._feed.subscribe(STORE, told)

    def load(self, graph: LearnedCounts[GraphDelta], usage: LearnedCounts[UsageChange]) -> bool:
        """See `GraphStorage`."""
        try:
            stored, learned = self._database.run(graph_rows.read)
        except DatabaseUnavailableError as error:
            self._warn("read", error)
            return False
        graph.rebase(stored)
        usage.rebase(learned)
        return True

    def add(
        self, change: GraphDelta, usage: UsageChange, everything: Everything | None = None
    ) -> bool:
        """See `GraphStorage`. A change that clears the graph is durable when this returns."""
        del everything
        try:
            self._database.run(lambda connection: self._add(connection, change, usage))
        except DatabaseUnavailableError as error:
            self._warn("written", error)
            return False
        if self._warned:
            log.warning("the graph in the database is written again")
        self._warned = ""
        return True

    async def _add(self, connection: Connection, change: GraphDelta, usage: UsageChange) -> None:
        if not (change.whole or usage.whole):
            await connection.execute(_NOT_DURABLE)
        await graph_rows.add(connection, change, usage)
        await self._feed.add(connection, STORE, self._replica)

    def _warn(self, what: str, error: Exception) -> None:
        """Logs why the graph cannot be used, once until it can be written again."""
        level = logging.DEBUG if self._warned else logging.WARNING
        log.log(level, "the graph in the database cannot be %s now: %s", what, error)
        self._warned = str(error)
