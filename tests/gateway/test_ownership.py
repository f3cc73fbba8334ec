"""Servers that replicas of a gateway divide among them, over upstreams of the test."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from tests.gateway.test_gateway import SOURCE, A, B, Stage, known, ready, run, states
from toolscript.config.servers import Config
from toolscript.errors import NotConnectedError, NotOwnerError
from toolscript.gateway.base import (
    SILENT_CALLER,
    Caller,
    CatalogueNews,
    DatabaseState,
    Failed,
    Replication,
    Serve,
)
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.replication import ReplicatedGateway
from toolscript.gateway.run_policy import RunPolicy
from toolscript.types import ServerSpec

pytestmark = pytest.mark.anyio
Forward = Callable[[ServerSpec, str, dict[str, Any], Caller], Awaitable[dict[str, Any]]]
ONE = ServerSpec(name="one", transport="stdio", command="one", instances="one")


class Divided(Replication):
    """A replica that owns what the test says, beside others of which nothing is heard."""

    replica = "this"

    def __init__(self, *owned: str, forward: Forward | None = None) -> None:
        self.owned = set(owned)
        self._changed = anyio.Event()
        self._forward = forward

    def follow(self, specs: Iterable[ServerSpec]) -> None:
        """Nothing is agreed on."""

    def owns(self, spec: ServerSpec) -> bool:
        return spec.name in self.owned

    async def changed(self) -> None:
        await self._changed.wait()
        self._changed = anyio.Event()

    def give(self, *owned: str) -> None:
        self.owned = set(owned)
        self._changed.set()

    def load(self, specs: Iterable[ServerSpec]) -> Catalogue:
        del specs
        return Catalogue({})

    def save(self, catalogue: Catalogue) -> None:
        """Nothing is stored."""

    async def news(self) -> CatalogueNews:
        await anyio.sleep_forever()
        return CatalogueNews()

    def report_stale(self, server: str) -> None:
        """Nobody is told."""

    async def forward(
        self, spec: ServerSpec, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        assert self._forward
        return await self._forward(spec, method, params, caller)

    def accept(self, serve: Serve) -> None:
        """Nothing is passed on."""

    async def answer(self, body: bytes) -> bytes | None:
        del body
        return None

    def state(self) -> DatabaseState:
        raise AssertionError("nobody asks")


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.may_end.set()
    return stage


def make(
    stage: Stage,
    folder: Path,
    replication: Replication,
    *specs: ServerSpec,
    snapshot: Catalogue | None = None,
    eager: bool = False,
) -> ReplicatedGateway:
    return ReplicatedGateway(
        replication,
        Config((SOURCE,), specs),
        snapshot or Catalogue({}),
        stage.connector,
        DefinitionPins(folder, "k"),
        policy=RunPolicy("all" if eager else "needed"),
    )


async def until_running(stage: Stage, *names: str) -> None:
    while stage.running != set(names):
        await anyio.lowlevel.checkpoint()


async def test_a_server_of_another_owner_is_known_from_it_and_started_by_a_call(
    stage: Stage, tmp_path: Path
) -> None:
    gateway = make(stage, tmp_path, Divided("a"), A, B)
    async with run(gateway, stage, "a"):
        stage.tell("a", ready("a", "x"))
        assert gateway.unsettled == ["b"]
        await gateway.adopt(known(B, "y"))
        assert gateway.settled
        assert list(gateway.catalogue.tools) == ["a__x", "b__y"]
        assert states(gateway) == {"a": "ready", "b": "resting"}
        answer = await gateway.route("b", "tools/call", {"name": "y"}, SILENT_CALLER)
        assert answer["server"] == "b"
        assert stage.running == {"a", "b"}


async def test_an_entry_of_another_configuration_or_of_an_own_server_is_not_adopted(
    stage: Stage, tmp_path: Path
) -> None:
    gateway = make(stage, tmp_path, Divided("a"), A, B)
    async with run(gateway, stage, "a"):
        stage.tell("a", ready("a", "x"))
        await gateway.adopt(known(A, "forged"))
        await gateway.adopt(replace(known(B, "y"), digest="another"))
        assert list(gateway.catalogue.tools) == ["a__x"]


async def test_of_an_adopted_entry_the_definitions_are_compared_with_those_accepted(
    stage: Stage, tmp_path: Path
) -> None:
    gateway = make(stage, tmp_path, Divided(), B)
    async with run(gateway, stage):
        await gateway.adopt(known(B, "y"))
        [tool] = known(B, "y").tools
        changed = replace(known(B), tools=(replace(tool, description="Other words"),))
        await gateway.adopt(changed)
        assert not gateway.catalogue.tools
        assert list(gateway.catalogue.held) == ["b__y"]
        await gateway.approve(list(gateway.catalogue.held.values()))
        await gateway.adopt(changed)
        assert list(gateway.catalogue.tools) == ["b__y"]


@pytest.mark.parametrize("eager", [True, False])
async def test_a_new_owner_starts_what_is_unknown_or_to_be_started(
    stage: Stage, tmp_path: Path, *, eager: bool
) -> None:
    ownership = Divided()
    snapshot = Catalogue.of([known(A, "x")])
    gateway = make(stage, tmp_path, ownership, A, B, snapshot=snapshot, eager=eager)
    async with run(gateway, stage):
        ownership.give("a", "b")
        await until_running(stage, *(["a", "b"] if eager else ["b"]))


async def test_that_it_fails_here_says_nothing_of_a_server_of_another_owner(
    stage: Stage, tmp_path: Path
) -> None:
    gateway = make(stage, tmp_path, Divided(), B)
    async with run(gateway, stage):
        await gateway.adopt(known(B, "y"))
        await gateway.route("b", "ping", {}, SILENT_CALLER)
        stage.tell("b", Failed(error="no route"))
        assert list(gateway.catalogue.tools) == ["b__y"]


@pytest.mark.parametrize("what", ["loses", "reconfigures"])
async def test_a_request_goes_to_the_owner_that_there_is_by_then(
    stage: Stage, tmp_path: Path, *, what: str
) -> None:
    """It waits here for a server that another replica gets, or there for an entry that is gone."""
    other = replace(ONE, args=("x",))
    entry = ONE if what == "loses" else other

    async def forward(
        spec: ServerSpec, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        del params, caller
        if spec != entry:
            raise NotOwnerError("it has another entry")
        return {"forwarded": method}

    ownership = Divided(*(["one"] if what == "loses" else []), forward=forward)
    gateway = make(stage, tmp_path, ownership, ONE)
    answers, answered = list[dict[str, Any]](), anyio.Event()

    async def ask() -> None:
        answers.append(await gateway.route("one", "ping", {}, SILENT_CALLER))
        answered.set()

    async with anyio.create_task_group() as tasks:
        if what == "loses":  # before `run`, so that no instance is there yet
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            assert not answers
        async with run(gateway, stage):
            ownership.give()
            if what == "reconfigures":
                tasks.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                gateway.configure(Config((SOURCE,), (other,)))
            await answered.wait()
    assert answers == [{"forwarded": "ping"}]


async def test_who_no_longer_owns_a_server_that_runs_once_stops_it(
    stage: Stage, tmp_path: Path
) -> None:
    ownership = Divided("one", "a")
    gateway = make(stage, tmp_path, ownership, ONE, A)
    async with run(gateway, stage, "one", "a"):
        stage.tell("one", ready("one", "x"))
        ownership.give()
        await until_running(stage, "a")
        assert list(gateway.catalogue.tools) == ["one__x"]
        with pytest.raises(NotOwnerError, match="not run by this replica"):
            await gateway.serve_replica("one", ONE.digest, "ping", {}, SILENT_CALLER)
        ownership.give("one")
        with pytest.raises(NotConnectedError):
            await gateway.serve_replica("one", "another", "ping", {}, SILENT_CALLER)
        assert await gateway.serve_replica("one", ONE.digest, "ping", {}, SILENT_CALLER)
