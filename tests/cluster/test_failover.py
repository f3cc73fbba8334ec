"""The server is lost, and its standby takes over."""

import signal
from collections.abc import Generator
from contextlib import contextmanager

from tests.postgres import replicated_servers
from tests.support import until
from toolscript.cluster.change_feed import ChangeFeed
from toolscript.cluster.database import Database
from toolscript.cluster.key_value_store import DatabaseRecords


@contextmanager
def followed(url: str) -> Generator[DatabaseRecords]:
    """The values as a gateway has them: with a copy, which the feed keeps up to date."""
    database = Database(url)
    feed = ChangeFeed(database, "default")
    records = DatabaseRecords(database, feed, "default", "test")
    database.open()
    try:
        feed.start()
        records.load()
        yield records
    finally:
        database.close()


def test_copies_follow_a_standby_that_lacks_the_newest_changes() -> None:
    """As it may where replication is not synchronous; its transactions have ids that were used."""
    with (
        replicated_servers(synchronous=False) as (primary, standby, url),
        followed(url) as ours,
    ):
        ours.write("a", b"old")
        with followed(standby.url("made")) as copy:
            until(lambda: copy.read("a") == b"old", "the standby has it")
        standby.stop()
        for number in range(30):
            ours.write("a", str(number).encode())
            ours.write("lost", str(number).encode())
        primary.stop(signal.SIGQUIT)
        standby.start()
        standby.promote()
        with followed(url) as theirs:
            assert (theirs.read("a"), theirs.read("lost")) == (b"old", None)
            until(lambda: ours.read("a") == b"old", "it is as the database has it")
            until(lambda: ours.read("lost") is None, "it is gone")
            theirs.write("a", b"new")
            until(lambda: ours.read("a") == b"new", "the change is seen")
            stamp = theirs.stamp("a")
            ours.write("a", b"newer")
            until(lambda: theirs.read("a") == b"newer", "the other way, too")
            assert theirs.stamp("a") != stamp
