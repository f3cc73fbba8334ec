"""The entries of servers as several replicas see them, over a real database."""

import asyncio
from collections.abc import Callable, Generator

import pytest
from msgspec.structs import replace

from tests.gateway.test_snapshot import GIT, TIME, entry
from tests.postgres.test_leases import RENEW_S, TTL_S
from tests.support import PATIENCE_S, until
from toolscript.gateway.base import CatalogueNews
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.postgres.catalogue_store import DatabaseCatalogue
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.leases import Leases

SPECS = [TIME, GIT]


class Replica:
    """What a replica of a gateway has of the database."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.feed = ChangeFeed(database)
        self.leases = Leases(
            *(database, self.feed, f"http://{name}"), replica=name, ttl_s=TTL_S, renew_s=RENEW_S
        )
        self.store = DatabaseCatalogue(database, self.feed, self.leases)
        self.feed.start()
        self.leases.follow(SPECS)
        self.leases.start()

    def news(self) -> CatalogueNews:
        return asyncio.run(asyncio.wait_for(self.store.news(), PATIENCE_S))

    @property
    def owned(self) -> set[str]:
        return {spec.name for spec in SPECS if self.leases.owns(spec)}


@pytest.fixture
def join(connect: Callable[[], Database]) -> Generator[Callable[[str], Replica]]:
    joined: list[Replica] = []

    def replica(name: str) -> Replica:
        joined.append(Replica(connect(), name))
        return joined[-1]

    yield replica
    for each in joined:
        each.leases.close()


Join = Callable[[str], Replica]


def test_others_are_told_what_the_owner_stores_and_nobody_else_stores(join: Join) -> None:
    owner = join("owner")
    until(lambda: len(owner.owned) == 2, "one owns both")
    other = join("other")
    until(lambda: owner.leases.replicas == other.leases.replicas == 2, "both are there")
    until(lambda: len(owner.owned | other.owned) == 2 and owner.owned, "each has one owner")
    catalogue = Catalogue.of([entry(TIME), entry(GIT)])
    theirs = [e for e in catalogue.servers.values() if e.name in owner.owned]
    owner.store.save(catalogue)
    told: list[ServerEntry] = []
    while len(told) < len(theirs):  # each is a change of its own
        told += other.news().entries
    assert told == theirs
    other.store.save(Catalogue.of([replace(each, version="forged") for each in theirs]))
    assert owner.store.load(SPECS).servers == {each.name: each for each in theirs}


def test_an_unchanged_entry_is_not_written_again(join: Join) -> None:
    owner = join("owner")
    until(lambda: len(owner.owned) == 2, "one owns both")
    versions = "select sum(version)::int from toolscript.record where store = 'catalogue'"
    for _ in range(3):
        owner.store.save(Catalogue.of([entry(TIME), entry(GIT)]))
    assert owner.database.run(lambda c: c.fetchval(versions)) == 2
    owner.store.save(Catalogue.of([replace(entry(TIME), version="2"), entry(GIT)]))
    assert owner.database.run(lambda c: c.fetchval(versions)) == 3


def test_an_owner_whose_lease_has_expired_stores_nothing(join: Join) -> None:
    owner = join("owner")
    until(lambda: len(owner.owned) == 2, "one owns both")
    owner.store.save(Catalogue.of([entry(TIME)]))
    taken = "update toolscript.lease set replica = 'other', epoch = epoch + 1"
    owner.database.run(lambda c: c.execute(taken))
    owner.store.save(Catalogue.of([replace(entry(TIME), version="late")]))
    assert owner.store.load(SPECS).servers == {"time": entry(TIME)}


def test_what_is_stored_but_no_entry_is_left_out(
    join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    owner = join("owner")
    until(lambda: len(owner.owned) == 2, "one owns both")
    owner.store.save(Catalogue.of([entry(TIME), entry(GIT)]))
    damage = "update toolscript.record set content = 'no entry' where name = 'time'"
    owner.database.run(lambda c: c.execute(damage))
    assert list(owner.store.load(SPECS).servers) == ["git"]
    assert "time is not usable" in caplog.text


def test_decisions_and_other_tools_are_told_by_the_servers_names(join: Join) -> None:
    one, two = join("one"), join("two")
    one.database.run(lambda c: one.feed.add(c, "pins", "time"))
    assert two.news().reviewed == {"time"}
    one.store.report_stale("git")
    assert two.news().stale == {"git"}
