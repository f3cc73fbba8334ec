"""Leases of replicas that share a real database; one of them is a process that is stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass

import pytest

from tests.postgres_server import PostgresServer
from tests.support import until
from toolscript.postgres import leases
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.leases import Leases, rendezvous
from toolscript.types import ServerSpec

SPECS = [ServerSpec(name=f"s{n}", transport="stdio", command="run") for n in range(12)]
TTL_S, RENEW_S = 1.5, 0.3


def lease_name(spec: ServerSpec) -> str:
    return leases.lease_name(spec.name, spec.digest)


@dataclass
class Replica:
    database: Database
    leases: Leases

    def owned(self) -> set[str]:
        return {spec.name for spec in SPECS if self.leases.owns(spec)}

    def writes(self, spec: ServerSpec) -> bool:
        """Whether a write that is fenced by the server's lease changes anything."""

        async def write(connection: Connection) -> bool:
            if not await self.leases.fence(connection, lease_name(spec)):
                return False
            await connection.execute(
                "insert into toolscript.record (catalogue, store, name, content) "
                "values ('default', 'test', $1, $2) on conflict (catalogue, store, name) "
                "do update set content = excluded.content",
                *(spec.name, self.leases.replica.encode()),
            )
            return True

        return self.database.run(write)


Join = Callable[..., Replica]


@pytest.fixture
def join(connect: Callable[[], Database]) -> Generator[Join]:
    """Adds a replica with a connection of its own."""
    joined: list[Replica] = []

    def replica(name: str, specs: list[ServerSpec] = SPECS) -> Replica:
        database = connect()
        feed = ChangeFeed(database)
        feed.start()
        leases = Leases(
            *(database, feed, f"http://{name}"), replica=name, ttl_s=TTL_S, renew_s=RENEW_S
        )
        leases.follow(specs)
        leases.start()
        joined.append(Replica(database, leases))
        return joined[-1]

    yield replica
    for each in joined:
        each.leases.close()


def divided(*replicas: Replica) -> bool:
    """Whether every server has one owner, and every replica owns some."""
    owned = [replica.owned() for replica in replicas]
    counted = Counter(name for names in owned for name in names)
    return all(owned) and counted == {spec.name: 1 for spec in SPECS}


def pair(join: Join) -> tuple[Replica, Replica]:
    """Two replicas that have divided the servers."""
    one, two = join("one"), join("two")
    until(lambda: divided(one, two), "each server has one owner")
    return one, two


def test_replicas_divide_the_servers_and_know_each_others_addresses(join: Join) -> None:
    one, two, three = join("one"), join("two"), join("three")
    until(lambda: divided(one, two, three), "each server has one owner")
    for spec in SPECS:
        [owner] = [r.leases.replica for r in (one, two, three) if r.leases.owns(spec)]
        for each in (one, two, three):
            until(
                lambda each=each, spec=spec, owner=owner: (
                    each.leases.owner_of(spec) == (owner, f"http://{owner}")
                ),
                "the owner is known",
            )
        assert owner == rendezvous(lease_name(spec), ["one", "two", "three"])
    assert one.leases.replicas == 3


def test_a_replica_that_ends_leaves_its_leases_at_once(join: Join) -> None:
    one, two = pair(join)
    [spec, *_] = [spec for spec in SPECS if one.leases.owns(spec)]
    one.leases.close()
    assert not one.writes(spec)
    until(lambda: len(two.owned()) == len(SPECS), "the other one owns every server")
    assert two.writes(spec)
    assert two.leases.replicas == 1


def test_a_server_belongs_to_a_replica_whose_configuration_has_it(join: Join) -> None:
    mine = [spec for spec in SPECS if rendezvous(lease_name(spec), ["one", "two"]) == "two"]
    one, _ = join("one"), join("two", [spec for spec in SPECS if spec not in mine])
    until(lambda: one.leases.replicas == 2, "both are there")
    until(lambda: {s.name for s in mine} <= one.owned(), "the one that has them owns them")


_HOLDER = """
import sys, time
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.leases import Leases
from tests.postgres.test_leases import RENEW_S, SPECS, TTL_S, Replica

database = Database(sys.argv[1])
leases = Leases(database, ChangeFeed(database), "http://held",
                replica="held", ttl_s=TTL_S, renew_s=RENEW_S)
leases.follow(SPECS)
leases.start()
replica = Replica(database, leases)
for _ in range(3000):
    if len(replica.owned()) == len(SPECS):
        break
    time.sleep(0.01)
print("holds", flush=True)
epoch = leases._holding
sys.stdin.readline()
# Stopped and resumed in the meantime: what it knows is what it knew then.
leases._holding = epoch
print(any([leases.owns(spec) for spec in SPECS]), [replica.writes(spec) for spec in SPECS],
      flush=True)
database.close()
"""


def test_a_stopped_process_loses_its_leases_and_cannot_write_once_it_goes_on(
    join: Join, database_url: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "holds\n"
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            other = join("other")
            until(lambda: len(other.owned()) == len(SPECS), "all were taken over")
            assert all(other.writes(spec) for spec in SPECS)
        finally:
            holder.stdin.write("go on\n")
            holder.stdin.flush()
            os.kill(holder.pid, signal.SIGCONT)
        assert holder.stdout.readline() == f"False {[False] * len(SPECS)}\n"


def test_an_epoch_grows_with_each_owner_and_only_the_newest_writes(
    join: Join, connect: Callable[[], Database]
) -> None:
    one = join("one")
    until(lambda: len(one.owned()) == len(SPECS), "all are owned")
    expired = "update toolscript.lease set expires_at = '-infinity'"
    epochs = "select epoch from toolscript.lease where name = $1"
    name = lease_name(SPECS[0])
    connect().run(lambda c: c.execute(expired))
    assert not one.writes(SPECS[0]), "the lease has expired, and is not taken again yet"
    until(lambda: one.writes(SPECS[0]), "it is taken again")
    assert connect().run(lambda c: c.fetchval(epochs, name)) == 2


def test_one_replica_more_moves_only_what_it_gets() -> None:
    names = [f"server-{n}" for n in range(2000)]
    before = {name: rendezvous(name, "abc") for name in names}
    after = {name: rendezvous(name, "abcd") for name in names}
    moved = [name for name in names if before[name] != after[name]]
    assert {after[name] for name in moved} == {"d"}
    assert len(moved) < 2000 / 4 * 1.25
    assert all(400 < count < 600 for count in Counter(after.values()).values())


def test_while_the_database_is_away_an_owner_stays_and_nobody_moves(
    join: Join, postgres: PostgresServer
) -> None:
    """After it the replicas come back one by one: the first does not take what the others had."""
    one, two = pair(join)
    before = one.owned(), two.owned()
    seen: list[tuple[set[str], set[str]]] = []

    def look() -> bool:
        seen.append((one.owned(), two.owned()))
        return bool(one.writes(SPECS[0]) or two.writes(SPECS[0]))

    postgres.stop()
    try:
        until(lambda: one.database.problem and two.database.problem, "both have noticed")
        expired_at = time.monotonic() + TTL_S
        until(lambda: time.monotonic() > expired_at, "every lease has expired")
        assert (one.owned(), two.owned()) == before
    finally:
        postgres.start()

    def writes_again() -> bool:
        try:
            return look()
        except OSError:
            return False

    until(writes_again, "one of them writes again")
    assert all(owned == before for owned in seen)


def test_while_the_database_keeps_the_replicas_waiting_owners_stay(
    join: Join, connect: Callable[[], Database]
) -> None:
    """It fails no renewal, and answers none, as behind a pooler that has lost its server."""
    one, two = pair(join)
    before = one.owned(), two.owned()

    def nothing_changes(seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while time.monotonic() < ends_at:
            assert (one.owned(), two.owned()) == before
            time.sleep(0.01)

    with connect().transaction() as run:
        run(lambda c: c.execute("lock table toolscript.lease in access exclusive mode"))
        nothing_changes(2 * TTL_S)
    nothing_changes(TTL_S)
    assert one.writes(SPECS[0]) or two.writes(SPECS[0])


def test_who_comes_back_first_waits_for_the_others(
    join: Join, connect: Callable[[], Database]
) -> None:
    """The database keeps both replicas waiting, and one of them is slow to hear of its end."""
    one, two = pair(join)
    before = one.owned(), two.owned()
    hears = threading.Event()

    def stand_still() -> None:
        time.sleep(3 * RENEW_S)
        hears.set()

    with connect().transaction() as run:
        run(lambda c: c.execute("lock table toolscript.lease in access exclusive mode"))
        time.sleep(2 * TTL_S)
        two.database.call_soon(stand_still)
    taken: list[set[str]] = []

    def look() -> bool:
        taken.append(one.owned() - before[0])
        return hears.is_set()

    until(look, "the other hears again")
    until(lambda: any(two.writes(spec) for spec in SPECS), "the other writes again")
    assert not any(taken)
    assert (one.owned(), two.owned()) == before
