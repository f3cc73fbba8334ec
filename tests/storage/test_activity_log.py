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

from tests.contracts.test_activity_stores import ALL, CALL, numbered, numbers
from tests.support import until
from toolscript.storage.activity_log import MAX_ROWS, ActivityLog, ActivityPage


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
