"""The log of calls: the newest ones, whatever happens to the file or to its writers."""

import signal
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.test_activity_stores import ALL, CALL, numbered, numbers
from tests.support import until
from toolscript.storage.activity_log import (
    MAX_ROWS,
    ActivityLog,
    ActivityPage,
    ActivityQuery,
)


@pytest.fixture
def activity(tmp_path: Path) -> ActivityLog:
    return ActivityLog(tmp_path / "activity", "key")


def test_reading_makes_no_file(activity: ActivityLog) -> None:
    assert activity.read(ALL) == ActivityPage([], has_more=False)
    assert not activity.path.parent.exists()


def test_the_file_is_its_owners_only(activity: ActivityLog) -> None:
    activity.append([CALL])
    assert stat.S_IMODE(activity.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(activity.path.parent.stat().st_mode) == 0o700


def test_the_space_of_old_calls_is_used_again(activity: ActivityLog) -> None:
    activity.append(numbered(range(MAX_ROWS)))
    size = activity.path.stat().st_size
    for start in range(0, MAX_ROWS, 256):
        activity.append(numbered(range(start, start + 256)))
    assert activity.path.stat().st_size < size * 1.1


def _append(path: Path, first: int) -> None:
    activity = ActivityLog(path, "key")
    for number in range(first, first + 200, 10):
        activity.append(numbered(range(number, number + 10)))


def test_two_processes_write_the_same_file(activity: ActivityLog) -> None:
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(partial(_append, activity.path.parent), [0, 200]))
    page = activity.read(ALL)
    assert sorted(numbers(page)) == list(range(400))
    assert [call.id for call in page.calls] == list(range(400, 0, -1))


WRITER = """
import sys
from pathlib import Path
from tests.contracts.test_activity_stores import numbered
from toolscript.storage.activity_log import ActivityLog
activity = ActivityLog(Path(sys.argv[1]), "key")
number = 0
while True:
    activity.append(numbered(range(number, number + 100)))
    number += 100
"""


def test_a_writer_that_is_killed_leaves_whole_batches(activity: ActivityLog) -> None:
    def newest() -> int:
        return next((call.id for call in activity.read(ALL).calls), 0)

    for _ in range(5):
        before = newest()
        with subprocess.Popen([sys.executable, "-c", WRITER, activity.path.parent]) as writer:
            try:
                until(lambda before=before: newest() > before, "it writes")
            finally:
                writer.send_signal(signal.SIGKILL)
    page = activity.read(ALL)
    assert len(page.calls) % 100 == 0
    assert not list(activity.path.parent.glob("*.damaged-*"))
    activity.append([CALL])
    assert len(activity.read(ALL).calls) == min(MAX_ROWS, len(page.calls) + 1)


def damage_header(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def damage_length(path: Path) -> None:
    path.write_bytes(b"")


def damage_table(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("drop table call")
    db.close()


def damage_row(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("update call set outcome = 'nonsense' where id = 1")
    db.close()


DAMAGES = [damage_header, damage_length, damage_table, damage_row]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reads", [True, False])
def test_a_damaged_file_is_put_aside(
    activity: ActivityLog,
    caplog: pytest.LogCaptureFixture,
    damage: object,
    reads: bool,  # noqa: FBT001 - a parameter
) -> None:
    activity.append(numbered(range(3)))
    assert callable(damage)
    damage(activity.path)
    if reads or damage is damage_row:  # which is noticed by reading alone
        assert not activity.read(ALL).calls
    activity.append([CALL])
    assert [call.id for call in activity.read(ALL).calls] == [1]
    [aside] = activity.path.parent.glob("*.damaged-1")
    [message] = caplog.messages
    assert str(aside) in message


VERSION_1 = """
create table call (
    id integer primary key, time text not null, who text not null, tool text not null,
    server text not null, outcome text not null, ms real not null,
    argument_bytes integer, result_bytes integer
);
pragma user_version = 1;
"""


@pytest.fixture
def old(activity: ActivityLog) -> ActivityLog:
    """A file as the version before wrote it, with three calls."""
    activity.path.parent.mkdir()
    row = (CALL.time, CALL.who, CALL.tool, CALL.server, CALL.outcome)
    with sqlite3.connect(activity.path) as db:
        db.executescript(VERSION_1)
        for number in range(3):
            db.execute("insert into call values (null, ?, ?, ?, ?, ?, ?, 2, null)", (*row, number))
    db.close()
    return activity


def test_a_file_of_version_1_is_read_as_it_is(old: ActivityLog) -> None:
    before = old.path.read_bytes()
    expected = [replace(CALL, id=number + 1, ms=float(number)) for number in (2, 1, 0)]
    assert old.read(ALL).calls == expected
    assert old.path.read_bytes() == before


def test_an_id_that_was_recorded_with_a_colon_is_read_as_the_id(old: ActivityLog) -> None:
    with sqlite3.connect(old.path) as db:
        db.execute("update call set tool = 'files:read_file' where id = 2")
    db.close()
    assert {call.tool for call in old.read(ALL).calls} == {"files__read_file"}
    assert len(old.read(ActivityQuery(9, tool="files:*")).calls) == 3


def test_a_file_of_version_1_is_migrated_by_the_next_call(old: ActivityLog) -> None:
    call = replace(CALL, ms=3.0, search="read a file", arguments='{"path":"x"}')
    old.append([call])
    old.append([call])
    newest, _, *others = old.read(ALL).calls
    assert newest == replace(call, id=5)
    assert [(each.ms, each.search, each.arguments) for each in others] == [
        (number, None, None) for number in (2.0, 1.0, 0.0)
    ]
    assert not list(old.path.parent.glob("*.damaged-*"))


def test_a_file_of_version_2_is_read_and_migrated(old: ActivityLog) -> None:
    with sqlite3.connect(old.path) as db:
        db.executescript("alter table call add column search text")
        db.executescript("alter table call add column arguments text; pragma user_version = 2")
        db.execute("update call set search = 'read a file'")
    db.close()
    assert {call.search for call in old.read(ALL).calls} == {"read a file"}
    call = replace(CALL, result_tokens=7)
    old.append([call])
    newest, *others = old.read(ALL).calls
    assert newest == replace(call, id=4)
    assert {(each.search, each.result_tokens) for each in others} == {("read a file", None)}


def test_a_file_of_version_1_is_replaced_as_a_whole(old: ActivityLog) -> None:
    call = replace(CALL, id=7, arguments="{}")
    old.restore([call])
    assert old.read(ALL).calls == [call]


def test_a_damaged_file_of_version_1_is_put_aside(old: ActivityLog) -> None:
    damage_row(old.path)
    assert not old.read(ALL).calls
    assert list(old.path.parent.glob("*.damaged-1"))


def test_a_later_versions_file_is_left_alone(activity: ActivityLog) -> None:
    activity.append([CALL])
    with sqlite3.connect(activity.path) as db:
        db.execute("pragma user_version = 4")
    db.close()
    before = activity.path.read_bytes()
    with pytest.raises(OSError, match="version is 4"):
        activity.append([CALL])
    with pytest.raises(OSError, match="version is 4"):
        activity.read(ALL)
    assert activity.path.read_bytes() == before


def test_a_locked_file_cannot_be_written(activity: ActivityLog) -> None:
    activity.append([CALL])
    hasty = ActivityLog(activity.path.parent, "key", wait_s=0.05)
    with sqlite3.connect(activity.path, isolation_level=None) as db:
        db.execute("begin immediate")
        with pytest.raises(OSError, match="locked"):
            hasty.append([CALL])
    db.close()
    assert len(activity.read(ALL).calls) == 1
