"""The server is lost, and its standby takes over."""

import signal
from collections.abc import Generator
from contextlib import contextmanager

from tests.postgres_server import replicated_servers
from tests.support import until
from toolscript.errors import DatabaseUnavailableError
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.key_value_store import DatabaseRecords


@contextmanager
def followed(url: str) -> Generator[DatabaseRecords]:
    """The values as a gateway has them: with a copy, which the feed keeps up to date."""
    database = Database(url)
    feed = ChangeFeed(database)
    records = DatabaseRecords(database, feed, "test")
    database.open()
    try:
        feed.start()
        records.load()
        yield records
    finally:
        database.close()


def test_a_server_that_hangs_is_left_for_the_one_that_has_taken_over() -> None:
    with replicated_servers(synchronous=True) as (primary, standby, url), followed(url) as ours:
        ours.write("a", b"old")
        with primary.hanging():
            standby.promote()
            until(lambda: _is_written(ours, "a", b"new"), "the standby takes it")
        until(lambda: ours.read("a") == b"new", "the copy follows it")


def _is_written(records: DatabaseRecords, name: str, value: bytes) -> bool:
    try:
        records.write(name, value)
    except DatabaseUnavailableError:
        return False
    return True


def test_copies_follow_a_standby_that_lacks_the_newest_changes() -> None:
    """As it may where replication is not synchronous; its transactions have ids that were used."""
    with replicated_servers(synchronous=False) as (primary, standby, url), followed(url) as ours:
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
