import threading
import time
from collections.abc import Callable

import pytest

from toolscript.config.secret_key import SecretKey
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import LOCK_TIMEOUT_S, Database
from toolscript.postgres.driver import Connection, driver
from toolscript.postgres.key_value_store import DatabaseRecords, SealedRecords
from toolscript.storage.base import LostRecordError

Connect = Callable[[], Database]
_READER = """
do $$ begin create role reader; exception when duplicate_object then null; end $$;
grant usage on schema toolscript to reader;
grant select on all tables in schema toolscript to reader;
"""


def followed(connect: Connect) -> DatabaseRecords:
    """The values as a gateway has them: with a copy, which the feed keeps up to date."""
    database = connect()
    feed = ChangeFeed(database)
    records = DatabaseRecords(database, feed, "test")
    feed.start()
    records.load()
    return records


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def test_changes_of_others_reach_the_copy(connect: Connect) -> None:
    ours, theirs = followed(connect), followed(connect)

    theirs.write("a", b"1")
    wait_for(lambda: ours.read("a") == b"1")
    theirs.delete("a")
    wait_for(lambda: ours.read("a") is None)


def test_a_change_counts_for_others_once_its_block_has_ended(connect: Connect) -> None:
    ours, theirs = followed(connect), followed(connect)

    with ours.locked("a"):
        ours.write("a", b"1")
        assert ours.read("a") == b"1"
        assert theirs.read("a") is None

    assert ours.read("a") == b"1"
    wait_for(lambda: theirs.read("a") == b"1")


def test_what_changes_while_a_value_is_locked_is_seen(connect: Connect) -> None:
    """A gateway may wait for a new token for long."""
    ours = followed(connect)
    theirs = followed(connect)

    with ours.locked("a"):
        theirs.write("b", b"1")
        wait_for(lambda: ours.read("b") == b"1")


def test_a_value_that_is_locked_is_deleted_after_that(connect: Connect) -> None:
    ours = followed(connect)
    theirs = followed(connect)
    theirs.write("a", b"1")
    wait_for(lambda: ours.read("a") == b"1")

    with ours.locked("a"):
        deletion = threading.Thread(target=lambda: theirs.delete("a"))
        deletion.start()
        deletion.join(0.3)
        assert deletion.is_alive()
        ours.write("a", b"2")
    deletion.join(10)

    wait_for(lambda: ours.read("a") is None)


def test_who_may_only_read_keeps_no_lock_from_a_writer(connect: Connect) -> None:
    """Such a role can take every advisory lock, whose key it can see in pg_locks."""
    records, reader = followed(connect), connect()
    reader.run(lambda c: c.execute(_READER))

    async def hold(connection: Connection) -> None:
        await connection.execute("set local role reader")
        await connection.execute(
            "select pg_advisory_xact_lock(hashtextextended('default/test/a', 0))"
        )

    async def lock(connection: Connection) -> None:
        await connection.execute("set local role reader")
        await connection.execute("select 1 from toolscript.record for share")

    with reader.transaction() as run:
        run(hold)
        with records.locked("a", 1):
            records.write("a", b"1")
    with pytest.raises(driver().InsufficientPrivilegeError):
        reader.run(lock)

    assert records.read("a") == b"1"


def test_no_lock_is_waited_for_without_end(connect: Connect) -> None:
    records, other = followed(connect), followed(connect)

    def limit() -> object:
        return connect().run(lambda c: c.fetchval("show lock_timeout"))

    assert limit() == f"{LOCK_TIMEOUT_S}s"
    with (
        records.locked("a"),
        pytest.raises(TimeoutError, match="holds a lock in the database"),
        other.locked("a", 0.05),
    ):
        pass


def test_a_block_that_raises_changes_nothing(connect: Connect) -> None:
    records = followed(connect)

    def fail() -> None:
        with records.locked("a"):
            records.write("a", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert records.read("a") is None
    assert followed(connect).read("a") is None


def test_a_sealed_value_is_read_with_either_key_and_no_other(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    records, old, new = followed(connect), "o" * 32, "n" * 32
    SealedRecords(records, SecretKey(old), "login").write("a", b"secret")
    assert b"secret" not in (records.read("a") or b"")

    rotating = SealedRecords(records, SecretKey(new, old), "login")
    assert rotating.read("a") == b"secret"
    SealedRecords(records, SecretKey("x" * 32), "login").write("b", b"lost")
    lost = records.read("b")
    rotating.seal_again()

    assert "neither secret key has sealed login b" in caplog.text
    assert records.read("b") == lost
    assert SealedRecords(records, SecretKey(new), "login").read("a") == b"secret"
    with pytest.raises(LostRecordError):
        SealedRecords(records, SecretKey(old), "login").read("a")
    with pytest.raises(LostRecordError):  # it was sealed as something else
        SealedRecords(records, SecretKey(new), "token").read("a")


def test_a_sealed_value_under_another_name_is_not_read(connect: Connect) -> None:
    records = followed(connect)
    sealed = SealedRecords(records, SecretKey("k" * 32), "login")
    sealed.write("a", b"secret")
    records.write("b", records.read("a") or b"")

    with pytest.raises(LostRecordError):
        sealed.read("b")
