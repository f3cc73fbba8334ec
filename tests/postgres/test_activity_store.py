"""The log of calls in the database: whose it is, and what an outage costs."""

from collections.abc import Callable

import msgspec
import pytest

from tests.contracts.test_activity_stores import ALL, CALL
from tests.postgres_server import free_port
from toolscript.app.activity_recorder import ActivityRecorder
from toolscript.errors import ActivityLogError
from toolscript.postgres.activity_store import DatabaseActivityStore
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection

Connect = Callable[[], Database]


def test_calls_of_a_release_that_knew_other_fields_are_read(connect: Connect) -> None:
    """Gateways are replaced one after the other."""
    database = connect()
    rows = [(0, msgspec.msgpack.encode(msgspec.to_builtins(CALL) | {"x": 1}))]

    async def insert(connection: Connection) -> None:
        statement = "insert into toolscript.call values ('default', $1, 'owner', 'ok', $2)"
        await connection.executemany(statement, rows)

    database.run(insert)
    store = DatabaseActivityStore(database)
    assert store.read(ALL).calls == [CALL]


def test_an_outage_costs_records_and_no_call(caplog: pytest.LogCaptureFixture) -> None:
    database = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    recorder = ActivityRecorder(DatabaseActivityStore(database))
    recorder.record(CALL)
    with pytest.raises(ActivityLogError):
        recorder.read(ALL)
    assert recorder.dropped == 1
    assert "calls missing in the log of calls in the database: 1" in caplog.text
    database.close()
