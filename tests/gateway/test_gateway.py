"""The gateway over upstreams that report what a test tells them to."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from tests.support import unused_pins
from toolscript.config.servers import Config, ServerProblem
from toolscript.gateway.base import Caller, Connect, Failed, Ready, Report
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.run_policy import RunPolicy
from toolscript.types import ServerSpec, ServerStatus, ToolSpec

pytestmark = pytest.mark.anyio
A = ServerSpec(name="a", transport="stdio", command="a")
B = ServerSpec(name="b", transport="http", url="http://b")
OFF = ServerSpec(name="off", transport="stdio", disabled=True)
SOURCE = Path("/c.json")


def ready(server: str, *names: str) -> Ready:
    return Ready(
        tools=tuple(ToolSpec(server=server, name=name) for name in names),
        version=f"{server} 1.0",
        rejected=("odd: no schema",),
    )


def known(spec: ServerSpec, *names: str) -> ServerEntry:
    report = ready(spec.name, *names)
    return ServerEntry(name=spec.name, digest=spec.digest, state="ready", tools=report.tools)


@dataclass
class Stage:
    """Where upstreams report: holds each one's reporter by the server's name."""

    reporters: dict[str, Callable[[Report], None]] = field(
        default_factory=dict[str, Callable[[Report], None]]
    )
    running: set[str] = field(default_factory=set[str])
    started: list[ServerSpec] = field(default_factory=list[ServerSpec])
    may_end: anyio.Event = field(default_factory=anyio.Event)
    connectors: int = 0
    closed: int = 0

    def connector(self) -> Connect:
        self.connectors += 1
        return _Connect(self)

    def tell(self, server: str, report: Report) -> None:
        self.reporters[server](report)


@dataclass
class _Connect:
    stage: Stage

    def __call__(self, spec: ServerSpec, report: Callable[[Report], None]) -> "_Told":
        return _Told(self.stage, spec, report)

    def close(self) -> None:
        assert self.stage.running == set()
        self.stage.closed += 1


@dataclass
class _Told:
    stage: Stage
    spec: ServerSpec
    report: Callable[[Report], None]

    @property
    def pid(self) -> int | None:
        return None

    async def run(self) -> None:
        assert self.spec.name not in self.stage.running, "only one at a time"
        self.stage.reporters[self.spec.name] = self.report
        self.stage.running.add(self.spec.name)
        self.stage.started.append(self.spec)
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self.stage.may_end.wait()
            self.stage.running.discard(self.spec.name)

    def list_again(self) -> None:
        """Nothing is listed."""

    async def send(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        del caller
        return {"server": self.spec.name, "method": method, "params": params}


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.may_end.set()
    return stage


def make(
    stage: Stage, *specs: ServerSpec, snapshot: Catalogue | None = None, eager: bool = True
) -> Gateway:
    config = Config((SOURCE,), specs)
    known = snapshot or Catalogue({})
    policy = RunPolicy("all" if eager else "needed")
    return Gateway(config, known, stage.connector, unused_pins(), policy=policy)


@asynccontextmanager
async def run(gateway: Gateway, stage: Stage, *expected: str) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        while stage.running != set(expected):
            await anyio.lowlevel.checkpoint()
        yield
        tasks.cancel_scope.cancel()


def states(gateway: Gateway) -> dict[str, str]:
    return {status.name: status.state for status in gateway.statuses()}


@pytest.mark.requirement("catalogue:progressive")
async def test_tools_are_there_as_their_server_reports_ready(stage: Stage) -> None:
    gateway = make(stage, A, B, OFF)
    async with run(gateway, stage, "a", "b"):
        assert states(gateway) == {"a": "connecting", "b": "connecting", "off": "disabled"}
        assert gateway.unsettled == ["a", "b"]
        stage.tell("b", ready("b", "x", "y"))
        assert list(gateway.catalogue.tools) == ["b__x", "b__y"]
        assert states(gateway) == {"a": "connecting", "b": "ready", "off": "disabled"}
        assert not gateway.settled
        stage.tell("a", ready("a", "z"))
        assert list(gateway.catalogue.tools) == ["a__z", "b__x", "b__y"]
        assert gateway.settled


async def test_a_failure_costs_that_server_only_and_is_shown(stage: Stage) -> None:
    gateway = make(stage, A, B)
    async with run(gateway, stage, "a", "b"):
        stage.tell("a", ready("a", "x"))
        stage.tell("b", Failed(error="no such program", retry_s=3600))
        assert gateway.settled
        assert list(gateway.catalogue.tools) == ["a__x"]
        a, b = gateway.statuses()
        assert (a.state, a.tools, a.error, a.snapshot) == ("ready", 1, "", False)
        assert (a.version, a.rejected) == ("a 1.0", ("odd: no schema",))
        assert (b.state, b.tools, b.error, b.snapshot) == ("failed", 0, "no such program", False)
        assert a.since
        assert b.since
        assert a.retry == ""
        assert b.retry > b.since


async def test_a_server_of_several_instances_that_fails_is_settled_with_the_tools_that_are_known(
    stage: Stage,
) -> None:
    spec = msgspec.structs.replace(A, is_shared=False)
    gateway = make(stage, spec, snapshot=Catalogue.of([known(spec, "x")]))
    async with run(gateway, stage, "a"):
        assert not gateway.settled
        stage.tell("a", Failed(error="no such program", retry_s=3600))
        assert gateway.settled
        assert list(gateway.catalogue.tools) == ["a__x"]


async def test_the_tools_of_a_lost_connection_stay_until_reconnecting_has_failed(
    stage: Stage,
) -> None:
    gateway = make(stage, A)
    async with run(gateway, stage, "a"):
        stage.tell("a", ready("a", "x"))
        stage.tell("a", Failed(error="it ended", retrying=True))
        assert list(gateway.catalogue.tools) == ["a__x"]
        [status] = gateway.statuses()
        assert (status.state, status.error) == ("connecting", "it ended")
        stage.tell("a", Failed(error="it is gone"))
        assert list(gateway.catalogue.tools) == []
        assert states(gateway) == {"a": "failed"}
        stage.tell("a", ready("a", "x", "y"))
        assert list(gateway.catalogue.tools) == ["a__x", "a__y"]
        [status] = gateway.statuses()
        assert (status.state, status.error) == ("ready", "")


@pytest.mark.requirement("upstream:live")
async def test_who_waits_for_a_change_gets_the_latest_catalogue(stage: Stage) -> None:
    gateway = make(stage, A)
    seen: list[list[str]] = []

    async def watch() -> None:
        last: Catalogue | None = None
        while True:
            last = await gateway.changed(last)
            seen.append(list(last.tools))

    async with run(gateway, stage, "a"), anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await anyio.wait_all_tasks_blocked()
        stage.tell("a", ready("a", "x"))
        await anyio.wait_all_tasks_blocked()
        stage.tell("a", ready("a", "y"))
        stage.tell("a", ready("a", "z"))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert seen == [[], ["a__x"], ["a__z"]]


async def test_what_the_snapshot_knows_counts_until_the_server_says_otherwise(stage: Stage) -> None:
    gateway = make(stage, A, B, snapshot=Catalogue.of([known(A, "old")]))
    assert list(gateway.catalogue.tools) == ["a__old"]
    waiting = {"a": "connecting", "b": "connecting"}
    assert states(gateway) == waiting
    async with run(gateway, stage, "a", "b"):
        assert list(gateway.catalogue.tools) == ["a__old"]
        assert gateway.statuses()[0].snapshot is True
        stage.tell("a", ready("a", "new"))
        assert gateway.statuses()[0].snapshot is False
        assert list(gateway.catalogue.tools) == ["a__new"]


async def test_only_servers_that_the_snapshot_lacks_are_started_at_once(stage: Stage) -> None:
    snapshot = Catalogue.of([known(A, "old")])
    gateway = make(stage, A, B, snapshot=snapshot, eager=False)
    assert gateway.unsettled == ["b"]
    async with run(gateway, stage, "b"):
        assert states(gateway) == {"a": "resting", "b": "connecting"}
        assert gateway.statuses()[0].snapshot is True
    assert stage.reporters.keys() == {"b"}


@pytest.mark.parametrize("specs", [(), (OFF,), (A,)])
async def test_where_nothing_is_connected_to_no_client_is_loaded(
    stage: Stage, specs: tuple[ServerSpec, ...]
) -> None:
    gateway = make(stage, *specs, snapshot=Catalogue.of([known(A, "x")]), eager=False)
    async with run(gateway, stage):
        await anyio.wait_all_tasks_blocked()
    assert gateway.settled
    assert stage.connectors == 0


async def test_no_upstream_outlives_the_gateway(stage: Stage) -> None:
    gateway = make(stage, A, B)
    async with run(gateway, stage, "a", "b"):
        pass
    assert stage.running == set()
    assert stage.closed == 1, "what they share, after the last of them"


def test_servers_with_a_mistake_are_among_the_others_by_name(stage: Stage) -> None:
    config = Config((SOURCE,), (B, A), (ServerProblem(SOURCE, "ab", "command is 1"),))
    gateway = Gateway(config, Catalogue({}), stage.connector, unused_pins())
    a, ab, b = gateway.statuses()
    assert ab == ServerStatus(name="ab", state="invalid", error="/c.json: command is 1")
    assert (a.name, b.name) == ("a", "b")
    assert (a.transport, b.transport) == ("stdio", "http")


async def test_the_same_again_is_no_news_but_settles(stage: Stage) -> None:
    """upstream:isolation: a server that announces changes without end has nothing indexed."""
    before = ready("a", "x")
    entry = ServerEntry(
        name="a",
        digest=A.digest,
        state="ready",
        tools=before.tools,
        version=before.version,
        rejected=before.rejected,
    )
    gateway = make(stage, A, snapshot=Catalogue.of([entry]))
    async with run(gateway, stage, "a"):
        known_before = gateway.catalogue
        stage.tell("a", before)
        await gateway.settle()
        assert gateway.settled
        assert gateway.catalogue is known_before
        stage.tell("a", ready("a", "x", "y"))
        assert gateway.catalogue is not known_before


# Another configuration


def configured(*specs: ServerSpec) -> Config:
    return Config((SOURCE,), specs)


@pytest.mark.requirement("upstream:live")
async def test_only_what_changed_is_restarted(stage: Stage) -> None:
    """upstream:live: the others keep their connections."""
    gateway = make(stage, A, B)
    other = msgspec.structs.replace(B, url="http://other")
    c = ServerSpec(name="c", transport="stdio", command="c")
    async with run(gateway, stage, "a", "b"):
        stage.tell("a", ready("a", "x"))
        stage.tell("b", ready("b", "y"))
        gateway.configure(configured(A, other, c))
        assert list(gateway.catalogue.tools) == ["a__x", "b__y"]
        assert states(gateway) == {"a": "ready", "b": "connecting", "c": "connecting"}
        assert gateway.unsettled == ["b", "c"]
        await anyio.wait_all_tasks_blocked()
        stage.tell("b", ready("b", "z"))
        stage.tell("c", ready("c", "w"))
        assert list(gateway.catalogue.tools) == ["a__x", "b__z", "c__w"]
        assert gateway.settled
    assert stage.started[:2] == [A, B]
    assert sorted(stage.started[2:], key=lambda spec: spec.name) == [other, c]
    assert stage.connectors == 1


async def test_the_classes_of_a_changed_entry_count_before_its_server_is_connected_again(
    stage: Stage,
) -> None:
    gateway = make(stage, A)
    changed = msgspec.structs.replace(A, classes={"get_*": "destructive"})
    async with run(gateway, stage, "a"):
        stage.tell("a", ready("a", "get_x"))
        assert gateway.catalogue.tools["a__get_x"].tool_class == "read"
        gateway.configure(configured(changed))
        assert states(gateway) == {"a": "connecting"}
        assert gateway.catalogue.tools["a__get_x"].tool_class == "destructive"


async def test_what_is_removed_or_disabled_is_gone(stage: Stage) -> None:
    """upstream:live: its tools at once, its connection as soon as it has ended."""
    gateway = make(stage, A, B)
    async with run(gateway, stage, "a", "b"):
        stage.tell("a", ready("a", "x"))
        stage.tell("b", ready("b", "y"))
        gateway.configure(configured(msgspec.structs.replace(A, disabled=True)))
        assert list(gateway.catalogue.tools) == []
        assert states(gateway) == {"a": "disabled"}
        assert gateway.settled
        await anyio.wait_all_tasks_blocked()
        assert stage.running == set()


async def test_a_server_is_started_again_when_it_has_ended(stage: Stage) -> None:
    """upstream:live: two edits in a row leave one connection, to the server as it is now."""
    gateway = make(stage, A)
    second, third = (msgspec.structs.replace(A, command=c) for c in ("second", "third"))
    async with run(gateway, stage, "a"):
        told = stage.reporters["a"]
        stage.may_end = anyio.Event()
        gateway.configure(configured(second))
        await anyio.wait_all_tasks_blocked()
        gateway.configure(configured(third))
        await anyio.wait_all_tasks_blocked()
        assert stage.started == [A]
        stage.may_end.set()
        while len(stage.started) == 1:
            await anyio.lowlevel.checkpoint()
        assert stage.started == [A, third]
        told(ready("a", "old"))
        assert list(gateway.catalogue.tools) == [], "what it reports does not count any more"
        assert not gateway.settled


async def test_who_waits_until_it_has_settled_waits_for_what_is_configured_now(
    stage: Stage,
) -> None:
    gateway = make(stage, A)
    async with run(gateway, stage, "a"), anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.settle)
        await anyio.wait_all_tasks_blocked()
        gateway.configure(configured(B))
        await anyio.wait_all_tasks_blocked()
        assert tasks.cancel_scope.cancel_called is False
        stage.tell("b", Failed(error="no"))
    assert gateway.settled
