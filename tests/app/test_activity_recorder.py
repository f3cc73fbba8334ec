"""Calls are queued at once, written in batches by a task, and dropped where that fails."""

import logging
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from tests.storage.test_activity_log import ALL, CALL
from tests.support import PATIENCE_S
from toolscript.app.activity_recorder import MAX_BATCH, MAX_QUEUED, ActivityRecorder
from toolscript.errors import ActivityLogError
from toolscript.storage.activity_log import ActivityLog, RecordedCall


class Watched(ActivityLog):
    """A log that notes the size and the thread of each batch."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "key", wait_s=0.05)
        self.batches: list[int] = []
        self.threads: set[int] = set()

    def append(self, calls: Sequence[RecordedCall]) -> None:
        """See `ActivityLog.append`."""
        super().append(calls)
        self.batches.append(len(calls))
        self.threads.add(threading.get_ident())


@pytest.fixture
def file(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "activity")


def forbid(file: ActivityLog) -> None:
    """Make a directory of it, which nothing can be written to."""
    file.path.mkdir(parents=True)
    (file.path / "x").touch()


@pytest.mark.anyio
async def test_the_task_writes_batches_in_a_thread(file: Watched) -> None:
    recorder = ActivityRecorder(file)
    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorder.run)
            for round_ in (1, 2):
                for _ in range(MAX_BATCH + 1):
                    recorder.record(CALL)
                assert len(file.batches) == 2 * (round_ - 1), "no call waits for the disk"
                while len(file.batches) < 2 * round_:  # noqa: ASYNC110 - a file has no event
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert file.batches == [MAX_BATCH, 1] * 2
    assert threading.get_ident() not in file.threads
    assert len(file.read(ALL).calls) == 2 * (MAX_BATCH + 1)


def test_what_is_queued_is_written_at_the_end_and_read_before(file: Watched) -> None:
    recorder = ActivityRecorder(file)
    recorder.record(CALL)
    assert len(recorder.read(ALL).calls) == 1
    recorder.record(replace(CALL, who="anyone"))
    recorder.close()
    assert [call.who for call in file.read(ALL).calls] == ["anyone", "owner"]


def test_the_queue_is_bounded(file: Watched, caplog: pytest.LogCaptureFixture) -> None:
    recorder = ActivityRecorder(file)
    for _ in range(MAX_QUEUED + 3):
        recorder.record(CALL)
    assert recorder.dropped == 3
    recorder.close()
    assert sum(file.batches) == MAX_QUEUED
    assert ["1 (too many" in caplog.messages[0], "2 (for the" in caplog.messages[1]] == [True] * 2


def test_what_cannot_be_written_is_counted_and_told_of_once(
    file: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    forbid(file)
    caplog.set_level(logging.WARNING)
    recorder = ActivityRecorder(file)
    for _ in range(3):
        for _ in range(2 * MAX_BATCH):
            recorder.record(CALL)
        recorder.flush()
    assert recorder.dropped == 6 * MAX_BATCH
    [first] = caplog.messages
    assert f": {2 * MAX_BATCH} (" in first
    recorder.close()
    assert f": {4 * MAX_BATCH} (" in caplog.messages[1]
    assert len(caplog.messages) == 2


def test_it_goes_on_once_the_file_can_be_written_again(file: Watched) -> None:
    file.append([CALL])
    recorder = ActivityRecorder(file)
    with sqlite3.connect(file.path, isolation_level=None) as db:
        db.execute("begin immediate")
        recorder.record(CALL)
        recorder.flush()
        db.execute("rollback")
    db.close()
    recorder.record(CALL)
    recorder.flush()
    assert (recorder.dropped, len(file.read(ALL).calls)) == (1, 2)


def test_a_file_that_cannot_be_read_is_an_error_without_its_path(
    file: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    file.append([CALL])
    with sqlite3.connect(file.path) as db:
        db.execute("pragma user_version = 9")
    db.close()
    with pytest.raises(ActivityLogError) as caught:
        ActivityRecorder(file).read(ALL)
    assert str(file.path.parent) not in str(caught.value)
    assert "version is 9" in caplog.text
