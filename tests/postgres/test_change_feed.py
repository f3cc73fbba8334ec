"""What gateways hear of each other's changes while other transactions go on."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.support import until
from toolscript.postgres import change_feed
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database

Connect = Callable[[], Database]


class Followed:
    """A feed that notes what it tells."""

    def __init__(self, database: Database) -> None:
        self.told: list[frozenset[str] | None] = []
        self.feed = ChangeFeed(database)
        self.feed.subscribe("test", self._note)
        self.feed.start()

    async def _note(self, names: frozenset[str] | None) -> None:
        self.told.append(names)

    @property
    def names(self) -> set[str]:
        return {name for names in self.told for name in names or ()}


def added(database: Database, *names: str) -> None:
    """Commits changes, as another gateway does."""
    feed = ChangeFeed(database)

    async def add(connection: Any) -> None:
        for name in names:
            await feed.add(connection, "test", name)

    database.run(add)


def test_a_change_does_not_wait_for_an_older_transaction(connect: Connect) -> None:
    """Such as one of another program that uses the same server, which may take hours."""
    ours, theirs, other = Followed(connect()), connect(), connect()
    with other.transaction() as run:
        run(lambda c: c.fetchval("select pg_current_xact_id()::text"))
        added(theirs, "a")
        until(lambda: ours.names == {"a"}, "it is told")
        added(theirs, "b")
        until(lambda: ours.names == {"a", "b"}, "the next one, too")
        time.sleep(3 * change_feed.LOOK_S)
        assert len(ours.told) == 2, "what was told is not told at every look"


def test_a_change_is_told_whose_transaction_ends_late(connect: Connect) -> None:
    ours, theirs, late = Followed(connect()), connect(), connect()
    with late.transaction() as run:
        run(lambda c: ChangeFeed(late).add(c, "test", "late"))
        added(theirs, "soon")
        until(lambda: ours.names == {"soon"}, "the one that has ended is told")
    until(lambda: ours.names == {"soon", "late"}, "the other one is told at its end")


def test_a_transaction_that_is_undone_tells_nothing(connect: Connect) -> None:
    ours, theirs = Followed(connect()), connect()
    with suppress(ZeroDivisionError), theirs.transaction() as run:
        run(lambda c: ChangeFeed(theirs).add(c, "test", "undone"))
        raise ZeroDivisionError
    added(theirs, "a")
    until(lambda: ours.names == {"a"}, "the later one is told")
