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

from tests.support import until
from toolscript.storage.activity_log import (
    MAX_ROWS,
    ActivityLog,
    ActivityPage,
    ActivityQuery,
    RecordedCall,
)

CALL = RecordedCall(
    time="2026-01-02T03:04:05.678+00:00",
    who="owner",
    tool="files__read_file",
    server="files",
    outcome="ok",
    ms=1.5,
    argument_bytes=2,
    result_bytes=None,
)
ALL = ActivityQuery(limit=MAX_ROWS)


def numbered(numbers: range) -> list[RecordedCall]:
    return [replace(CALL, ms=float(number)) for number in numbers]


def numbers(page: ActivityPage) -> list[int]:
    return [int(call.ms) for call in page.calls]


@pytest.fixture
def activity(tmp_path: Path) -> ActivityLog:
    return ActivityLog(tmp_path / "activity", "key")


def test_what_is_appended_is_read_newest_first(activity: ActivityLog) -> None:
    assert activity.read(ALL) == ActivityPage([], has_more=False)
    assert not activity.path.parent.exists(), "reading makes no file"
    activity.append(numbered(range(2)))
    activity.append([replace(CALL, ms=2.0, who="anyone", outcome="timeout", result_bytes=7)])
    newest, *others = activity.read(ALL).calls
    assert newest == replace(CALL, id=3, ms=2.0, who="anyone", outcome="timeout", result_bytes=7)
    assert others == [replace(CALL, id=2, ms=1.0), replace(CALL, id=1, ms=0.0)]


def test_the_file_is_its_owners_only(activity: ActivityLog) -> None:
    activity.append([CALL])
    assert stat.S_IMODE(activity.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(activity.path.parent.stat().st_mode) == 0o700


def test_only_the_newest_calls_are_kept(activity: ActivityLog) -> None:
    activity.append(numbered(range(MAX_ROWS - 1)))
    for number in range(MAX_ROWS - 1, MAX_ROWS + 5):
        activity.append(numbered(range(number, number + 1)))
    assert numbers(activity.read(ALL)) == list(range(MAX_ROWS + 4, 4, -1))
    size = activity.path.stat().st_size
    for start in range(0, MAX_ROWS, 256):
        activity.append(numbered(range(start, start + 256)))
    assert activity.path.stat().st_size < size * 1.1, "the space of old rows is used again"


def test_pages_have_every_call_once(activity: ActivityLog) -> None:
    activity.append(numbered(range(10)))
    seen: list[int] = []
    before: int | None = None
    for has_more in (True, True, False):
        page = activity.read(ActivityQuery(limit=4, before=before))
        assert page.has_more is has_more
        seen += numbers(page)
        before = page.calls[-1].id
    assert seen == list(range(9, -1, -1))
    assert not activity.read(ActivityQuery(limit=10)).has_more


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (ActivityQuery(9, tool="git__*"), [2, 1]),
        (ActivityQuery(9, tool="git__lo?"), [2]),
        (ActivityQuery(9, tool="git"), []),
        (ActivityQuery(9, tool="GIT__log"), []),
        (ActivityQuery(9, who="anyone"), [1]),
        (ActivityQuery(9, who=""), []),
        (ActivityQuery(9, who="' or true --"), []),
        (ActivityQuery(9, outcome="tool error"), [2]),
        (ActivityQuery(9, tool="git__*", before=2), [1]),
        (ActivityQuery(1, tool="git__*"), [2]),
    ],
)
def test_a_query_chooses(activity: ActivityLog, query: ActivityQuery, found: list[int]) -> None:
    activity.append(
        [
            replace(CALL, tool="git__status", who="anyone"),
            replace(CALL, tool="git__log", outcome="tool error"),
            CALL,
        ]
    )
    page = activity.read(query)
    assert [call.id for call in page.calls] == found
    assert page.has_more == (query.limit == 1)


def test_no_pattern_takes_exponential_time(activity: ActivityLog) -> None:
    activity.append([replace(CALL, tool="a" * 200)] * 100)
    assert not activity.read(ActivityQuery(9, tool="*a" * 99 + "b")).calls


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
from tests.storage.test_activity_log import numbered
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
        db.execute("pragma user_version = 2")
    db.close()
    before = activity.path.read_bytes()
    with pytest.raises(OSError, match="version is 2"):
        activity.append([CALL])
    with pytest.raises(OSError, match="version is 2"):
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
