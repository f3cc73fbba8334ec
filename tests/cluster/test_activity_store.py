"""The log of calls in the database: whose it is, and what an outage costs."""

from collections.abc import Callable

import pytest

from tests.contracts.test_activity_stores import ALL, CALL, numbered, numbers
from tests.postgres import free_port
from toolscript.app.activity_recorder import ActivityRecorder
from toolscript.cluster.activity_store import DatabaseActivityStore
from toolscript.cluster.database import Database
from toolscript.errors import ActivityLogError

Connect = Callable[[], Database]


def test_catalogues_do_not_see_each_other(connect: Connect) -> None:
    database = connect()
    one, other = DatabaseActivityStore(database, "one"), DatabaseActivityStore(database, "other")
    one.append(numbered(range(3)))
    other.append([CALL])
    assert numbers(one.read(ALL)) == [2, 1, 0]
    assert [call.id for call in other.read(ALL).calls] == [1]


def test_an_outage_costs_records_and_no_call(caplog: pytest.LogCaptureFixture) -> None:
    database = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    recorder = ActivityRecorder(DatabaseActivityStore(database, "default"))
    recorder.record(CALL)
    with pytest.raises(ActivityLogError):
        recorder.read(ALL)
    assert recorder.dropped == 1
    assert "calls missing in the log of calls in the database: 1" in caplog.text
    database.close()
