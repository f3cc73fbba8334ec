"""What every `Records` does, in files and in a database."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolscript.config.secret_key import SecretKey
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.key_value_store import DatabaseRecords, SealedRecords
from toolscript.storage.base import Records
from toolscript.storage.file_records import FileRecords

Open = Callable[[], Records]
KEY = SecretKey("k" * 32)


@pytest.fixture(
    params=["files", "files, marked", "database", "database, copied", "sealed", "copied, pooled"]
)
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same storage again and again, as processes beside each other do."""
    kind: str = request.param
    if kind.startswith("files"):
        marker = tmp_path.joinpath("marks").joinpath if "marked" in kind else None
        return lambda: FileRecords(tmp_path / "values", marker=marker)
    way = "connect_pooled" if "pooled" in kind else "connect"
    connect: Callable[[], Database] = request.getfixturevalue(way)

    def in_database() -> Records:
        database = connect()
        feed = ChangeFeed(database)
        records = DatabaseRecords(database, feed, "test")
        if "copied" in kind:
            feed.start()
            records.load()
        return SealedRecords(records, KEY, "test") if kind == "sealed" else records

    return in_database


def test_a_name_that_was_never_written_has_no_value(reopened: Open) -> None:
    records = reopened()

    assert records.read("a") is None
    assert not records.was_written("a")
    assert not records.delete("a")
    assert records.names() == []


def test_what_is_written_is_read_by_others(reopened: Open) -> None:
    ours = reopened()
    ours.write("a", b"1")
    ours.write("b", b"")
    ours.write("a", b"2")
    theirs = reopened()

    assert (ours.read("a"), ours.read("b")) == (b"2", b"")
    assert (theirs.read("a"), theirs.read("b"), theirs.names()) == (b"2", b"", ["a", "b"])
    assert theirs.was_written("a")


def test_what_is_deleted_counts_as_never_written(reopened: Open) -> None:
    records = reopened()
    records.write("a", b"1")

    assert records.delete("a")

    for each in (records, reopened()):
        assert each.read("a") is None
        assert not each.was_written("a")
        assert each.names() == []


def test_the_stamp_changes_with_the_value(reopened: Open) -> None:
    records = reopened()
    stamps = [records.stamp("a")]
    for content in (b"1", b"22"):
        records.write("a", content)
        stamps.append(records.stamp("a"))
        assert records.stamp("a") == stamps[-1]
    records.delete("a")
    stamps.append(records.stamp("a"))

    assert len(set(stamps[:3])) == 3
    assert stamps[-1] != stamps[-2]


def test_a_block_that_raises_is_left_and_unlocked(reopened: Open) -> None:
    records = reopened()
    records.write("a", b"1")

    with pytest.raises(ZeroDivisionError), records.locked("a"):
        raise ZeroDivisionError

    with reopened().locked("a", 5):
        assert records.read("a") == b"1"


def test_one_caller_at_a_time_changes_a_value(reopened: Open) -> None:
    def add(_: int) -> None:
        records = reopened()
        for _ in range(5):
            with records.locked("sum"):
                records.write("sum", str(int(records.read("sum") or b"0") + 1).encode())

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))

    assert reopened().read("sum") == b"20"


def test_a_lock_that_another_holds_is_waited_for_so_long(reopened: Open) -> None:
    holding, done = threading.Event(), threading.Event()

    def hold() -> None:
        with reopened().locked("a"):
            holding.set()
            assert done.wait(60)

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(hold)
        assert holding.wait(60)
        with pytest.raises(TimeoutError), reopened().locked("a", 0.05):
            pass
        with reopened().locked("b", 5):  # another value is free
            pass
        done.set()
        held.result()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(
    changes=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.none() | st.binary(max_size=20)), max_size=12
    )
)
def test_the_newest_change_of_each_name_counts(
    reopened: Open, changes: list[tuple[str, bytes | None]]
) -> None:
    records = reopened()
    for name in "abc":
        records.delete(name)
    expected: dict[str, bytes] = {}
    for name, content in changes:
        if content is None:
            assert records.delete(name) == (expected.pop(name, None) is not None)
        else:
            records.write(name, content)
            expected[name] = content

    other = reopened()
    assert {name: other.read(name) for name in other.names()} == expected
