"""What every `CatalogueStore` does, in a file and in a database."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.gateway.test_snapshot import GIT, TIME, entry
from tests.postgres_server import PostgresServer
from tests.support import until
from toolscript.gateway.base import CatalogueStore
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.postgres.catalogue_store import DatabaseCatalogue
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.leases import Leases
from toolscript.types import ServerSpec, ServerState

SPECS = [TIME, GIT]


@pytest.fixture(params=["file", "database", "database, pooled"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[CatalogueStore]:
    """A store; in the database it is that of a replica that owns both servers."""
    if request.param == "file":
        yield SnapshotStore(tmp_path / "catalogue", "0123456789abcdef")
        return
    way = "connect_pooled" if "pooled" in request.param else "connect"
    connect: Callable[[], Database] = request.getfixturevalue(way)
    database = connect()
    feed = ChangeFeed(database)
    leases = Leases(database, feed, "http://one")
    catalogue = DatabaseCatalogue(database, feed, leases)
    feed.start()
    leases.follow(SPECS)
    leases.start()
    until(lambda: all(map(leases.owns, SPECS)), "both are owned")
    yield catalogue
    leases.close()


def test_what_was_known_is_known_again(store: CatalogueStore) -> None:
    catalogue = Catalogue.of([entry(TIME), entry(GIT, "failed")])
    store.save(catalogue)
    assert store.load(SPECS) == catalogue


def test_nothing_is_known_before_anything_is_stored(store: CatalogueStore) -> None:
    assert not store.load(SPECS).servers


def test_the_newest_entry_counts(store: CatalogueStore) -> None:
    store.save(Catalogue.of([entry(TIME), entry(GIT)]))
    newer = Catalogue.of([replace(entry(TIME), version="Time 2.0"), entry(GIT)])
    store.save(newer)
    assert store.load(SPECS) == newer


def test_only_servers_as_they_are_configured_now_are_taken_from_it(store: CatalogueStore) -> None:
    store.save(Catalogue.of([entry(TIME), entry(GIT)]))
    changed = ServerSpec(name="time", transport="stdio", command="npx")
    disabled = ServerSpec(name="git", transport="stdio", disabled=True)
    assert list(store.load([changed, GIT]).servers) == ["git"]
    assert list(store.load([TIME, disabled]).servers) == ["time"]
    assert list(store.load([GIT]).servers) == ["git"]
    assert not store.load([]).servers


@pytest.mark.parametrize("state", get_args(ServerState))
def test_only_what_has_been_settled_is_kept(store: CatalogueStore, state: ServerState) -> None:
    store.save(Catalogue.of([entry(TIME, state)]))
    assert bool(store.load([TIME]).servers) is (state in {"ready", "failed"})


def test_of_a_server_that_is_just_connected_to_it_is_what_was_known(store: CatalogueStore) -> None:
    before = entry(TIME)
    store.save(Catalogue.of([before, entry(GIT)]))
    now = replace(before, state="connecting", tools=())
    store.save(Catalogue.of([now, entry(GIT)]))
    assert store.load(SPECS) == Catalogue.of([before, entry(GIT)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_any_text_of_a_server_comes_back(store: CatalogueStore, texts: list[str]) -> None:
    for text in texts:
        [tool] = entry(TIME).tools
        described = replace(tool, description=text)
        catalogue = Catalogue.of([replace(entry(TIME), tools=(described,), error=text)])
        store.save(catalogue)
        assert store.load([TIME]) == catalogue


def test_where_it_cannot_be_stored_that_is_logged_and_it_is_stored_later(
    store: CatalogueStore,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    catalogue = Catalogue.of([entry(TIME)])
    if isinstance(store, SnapshotStore):
        store.path.parent.write_bytes(b"")  # a file where the folder would be
        store.save(catalogue)
        (tmp_path / "catalogue").unlink()
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        server.stop()
        try:
            store.save(catalogue)
        finally:
            server.start()
    assert "cannot be " in caplog.text

    def is_stored() -> bool:
        store.save(catalogue)
        try:
            return store.load([TIME]) == catalogue
        except OSError:
            return False

    until(is_stored, "it is stored")
