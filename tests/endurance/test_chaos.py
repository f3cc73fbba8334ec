"""Clients search and call while the servers are killed, hung, flooding and changed at random.

There are several parts. After each every server is started anew, and the gateway's memory,
descriptors and processes are noted: those of the last half must not exceed those of the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.endurance.chaos_clients import Tally, use
from tests.endurance.chaos_servers import Servers
from tests.endurance.effort import Effort
from tests.endurance.observed import blocked_times, descriptors, living, resident_mib
from tests.gateways import Started, gateway
from tests.support import until

_SERVERS, _SMOKE_SERVERS, _CLIENTS = 20, 8, 8
_PARTS, _PART_S = 4, 45.0
_SMOKE_PARTS, _SMOKE_PART_S = 2, 6.0
_IDLE_S = 2
_SETTINGS = {
    "TOOLSCRIPT_SEARCH_MODEL": "bundled",
    "TOOLSCRIPT_CALL_TIMEOUT": "5",
    "TOOLSCRIPT_CONNECT_TIMEOUT": "10",
}
_KINDS = ("http", "http", "session", "newest")
_RECOVERY_S = 60.0
_MORE_MIB, _SMOKE_MORE_MIB = 16.0, 96.0
"""So much more memory after the second half than after the first is no growth: caches fill.
A short run has one part in each half. On a busy machine these have differed by 43 MiB, though
seven such parts in a row end where they began: a short run shows gross leaks alone."""
_MORE_DESCRIPTORS = 5
_WORKING = {"ready", "resting"}


@dataclass(frozen=True)
class Calm:
    """What the gateway takes when nothing happens."""

    processes: int
    descriptors: int
    memory_mib: float


@dataclass
class Chaos:
    """A gateway, its servers, and what the clients got from them."""

    started: Started
    servers: Servers
    seconds: float
    """How long the servers suffer in each part."""
    idle_s: float
    tally: Tally = field(default_factory=Tally)
    calm: list[Calm] = field(default_factory=list[Calm])

    async def run(self, parts: int) -> None:
        """Runs so many parts."""
        async with httpx2.AsyncClient(base_url=self.started.url, timeout=30) as http:
            await self._settle(http)
            await http.get("/metrics")
            for _ in range(parts):
                await self._suffer()
                self.servers.recover()
                # The edit is noticed a moment later; until then the old ones are what is ready.
                await anyio.sleep(1)
                await self._settle(http)
                await anyio.sleep(2 * self.idle_s + 2)  # what is closed a moment later
                self.calm.append(self.look())

    async def _suffer(self) -> None:
        waiting, everybody = _CLIENTS, anyio.Event()

        def ready() -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                everybody.set()

        async with anyio.create_task_group() as tasks:
            for number in range(_CLIENTS):
                kind = _KINDS[number % len(_KINDS)]
                client = partial(use, self.started, kind, self.servers, self.tally, ready)
                tasks.start_soon(client)
            await everybody.wait()
            tasks.start_soon(self.servers.suffer)
            await anyio.sleep(self.seconds)
            tasks.cancel_scope.cancel()

    async def _settle(self, http: httpx2.AsyncClient) -> None:
        """Waits until every server works."""
        missing: list[str] = []
        with anyio.move_on_after(_RECOVERY_S):
            while True:
                listed = (await http.get("/servers")).json()["servers"]
                missing = [s["name"] for s in listed if s["state"] not in _WORKING or s["snapshot"]]
                if len(listed) == self.servers.number and not missing:
                    return
                await anyio.sleep(0.2)
        pytest.fail(f"not ready again: {missing or 'some are not configured'}")

    def look(self) -> Calm:
        """Returns the figures of this moment."""
        pid = self.started.pid
        return Calm(len(living(self.servers.folder)), descriptors(pid), resident_mib(pid))


def growth(calm: Sequence[Calm], figure: str) -> float:
    """Returns how much a figure has grown: its least of the last half less that of the first.

    A large message that is under way leaves a hole in the heap for a while, of 8 MiB and more.
    """
    before, after = calm[: len(calm) // 2], calm[len(calm) // 2 :]
    return min(getattr(c, figure) for c in after) - min(getattr(c, figure) for c in before)


@pytest.mark.requirement("upstream:isolation")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "resting",
    [pytest.param(False, marks=pytest.mark.long, id="running"), pytest.param(True, id="resting")],
)
def test_the_gateway_lives_on_whatever_its_servers_do(
    tmp_path: Path, effort: Effort, *, resting: bool
) -> None:
    """upstream:isolation: resting servers run once for each of three folders."""
    parts, seconds, number = _PARTS, _PART_S, _SERVERS
    if effort.scale < 1:
        parts, seconds, number = _SMOKE_PARTS, _SMOKE_PART_S, _SMOKE_SERVERS
    servers = Servers(tmp_path, number, resting, effort.chance)
    idle_s = _IDLE_S if resting else 0
    with gateway(tmp_path, **_SETTINGS, TOOLSCRIPT_IDLE_TIMEOUT=str(idle_s)) as started:
        chaos = Chaos(started, servers, seconds, idle_s)
        anyio.run(chaos.run, parts)
        blocked = blocked_times(started)
        calm, more = chaos.calm, _MORE_MIB if effort.scale >= 1 else _SMOKE_MORE_MIB
        # A peak of a moment ago is still in the heap, which is released twice a minute.
        until(
            lambda: growth([*calm, chaos.look()], "memory_mib") <= more,
            f"the memory is that of the first half again: {calm}",
            70,
        )
    asked = chaos.tally.counts
    assert not chaos.tally.wrong
    assert asked["searches"]
    assert asked["calls answered"]
    assert set(servers.deeds) == {"kill", "hang", "flood", "change", "restart"}
    assert servers.hit, "no server that ran was killed or stopped"
    assert calm[-1].processes <= (0 if resting else calm[0].processes)
    assert growth(calm, "descriptors") <= _MORE_DESCRIPTORS
    assert not living(tmp_path), "processes outlived the gateway"
    # Whether a call fails while its server is away depends on how soon that is back; and in the
    # usual run other tests want the processor.
    assert effort.scale < 1 or not blocked
