"""The stores of an application keep the same, as files and in a database."""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.contracts.test_activity_stores import ALL, CALL
from toolscript.app.base import Stores
from toolscript.app.stores import LocalStores
from toolscript.config.secret_key import SecretKey
from toolscript.postgres.shared_stores import SharedStores

Open = Callable[[], Stores]
NAMES = ("tokens", "pins", "answers", "logins")


@pytest.fixture(params=["file", "database"])
def reopened(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Open]:
    """Opens the same stores again and again, as processes beside each other do."""
    if request.param == "file":
        yield lambda: LocalStores(tmp_path, "key")
        return
    url: str = request.getfixturevalue("database_url")
    opened: list[SharedStores] = []

    def connect() -> Stores:
        stores = SharedStores(url, SecretKey("k" * 32))
        stores.database.open()
        opened.append(stores)
        return stores

    yield connect
    for stores in opened:
        stores.close()


def test_a_value_is_in_its_store_alone(reopened: Open) -> None:
    for store in NAMES:
        reopened().records(store).write("a", store.encode())
    for store in NAMES:
        records = reopened().records(store)
        assert records.read("a") == store.encode()
        assert records.names() == ["a"]
        assert records.location("a")


def test_calls_are_read_by_another_process(reopened: Open) -> None:
    reopened().activity.append([CALL])
    assert reopened().activity.read(ALL).calls == [replace(CALL, id=1)]


def test_there_are_no_replicas_before_it_joins(reopened: Open) -> None:
    assert reopened().replication is None
