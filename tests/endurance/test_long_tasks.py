"""A task of ten minutes goes on while its client, bridge and gateway are started again."""

import json
import os
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError

from tests.endurance.effort import Effort
from tests.support import (
    FUZZY,
    PATIENCE_S,
    Cli,
    child_processes,
    create_token,
    kill_all,
    stop_all,
    until,
)
from tests.surfaces.mcp.test_mcp import MODES, Mode, parameters
from tests.surfaces.mcp.test_tasks import TASKS, ask, begin, entry, final, lines, talk_as

WORK_S, LEAST_S = 600, 10
TOOL = "call_destructive_tool"


@contextmanager
def configured(home: Path) -> Generator[Cli]:
    """A command line over the server of tasks, whose gateways end with the block."""
    home.mkdir(exist_ok=True)
    cli = Cli(home, FUZZY | {"TOOLSCRIPT_PORT": "0"})
    cli.configure(tasks=entry(home / "state"))
    try:
        yield cli
    finally:
        stop_all(json.loads(path.read_text("utf-8"))["pid"] for path in cli.records)


def talk_over_bridge(cli: Cli, work: Callable[[Client], Awaitable[None]]) -> None:
    """A session of a client with a bridge of its own."""

    async def session() -> None:
        bridge = stdio_client(parameters(cli))
        async with Client(bridge, mode="auto", extensions=[TASKS]) as client:
            await work(client)

    anyio.run(session)


class Work:
    """A task that is begun, and when its client, bridge or gateway is to end."""

    def __init__(self, seconds: int) -> None:
        self.task = ""
        self._seconds = seconds
        self._begun = time.monotonic()
        self._turns = iter(range(1, 5))

    async def begin(self, client: Client) -> None:
        self.task = await begin(client, seconds=self._seconds)
        await self.go_on(client)

    async def go_on(self, client: Client) -> None:
        """Sees the task at work for a fifth of its time."""
        end = self._begun + self._seconds * next(self._turns) / 5
        while time.monotonic() < end:
            state = await ask(client, "tasks/get", taskId=self.task)
            assert state["status"] == "working", state
            await anyio.sleep(0.2)

    async def finish(self, client: Client) -> None:
        state = await final(client, self.task, patience_s=self._seconds + PATIENCE_S)
        assert state["status"] == "completed"
        assert time.monotonic() - self._begun >= self._seconds


def kill_gateway(cli: Cli) -> None:
    kill_all([cli.record()["pid"]])


def stop_gateway(cli: Cli) -> None:
    done = cli("gateway", "stop")
    assert done.returncode == 0, done.stderr


async def kill_bridge(client: Client) -> None:
    children = child_processes(os.getpid())  # a database may be among them
    kill_all(pid for pid, line in children.items() if "-m toolscript mcp" in line)
    with pytest.raises(MCPError):
        await ask(client, "tools/list")


@pytest.mark.requirement("mcp:transports")
def test_a_task_outlives_client_bridge_and_gateways(tmp_path: Path, effort: Effort) -> None:
    """mcp:transports: nothing that began it is left but its server's file."""
    with configured(tmp_path) as cli:
        work = Work(effort.times(WORK_S, LEAST_S))

        async def lose_bridge(client: Client) -> None:
            await work.go_on(client)
            await kill_bridge(client)

        async def lose_gateways(client: Client) -> None:
            for end in (kill_gateway, stop_gateway):
                await work.go_on(client)
                await anyio.to_thread.run_sync(end, cli)

        for scene in (work.begin, lose_bridge, lose_gateways, work.finish):
            talk_over_bridge(cli, scene)
    assert len(lines(tmp_path / "state", "calls")) == 1
    assert lines(tmp_path / "state", "cancelled") == []


@pytest.mark.requirement("mcp:transports")
def test_a_task_outlives_clients_and_gateways_over_http(tmp_path: Path, effort: Effort) -> None:
    """mcp:transports: each client is a new one, which shows the same token."""
    with configured(tmp_path) as cli:
        cli.start_gateway()
        token = create_token(cli, "--server", "tasks")["token"]
        work = Work(effort.times(WORK_S, LEAST_S))
        talk_as(token, cli.record()["url"], work.begin)
        for end in (kill_gateway, stop_gateway, kill_gateway):
            talk_as(token, cli.record()["url"], work.go_on)
            end(cli)
            cli.start_gateway()
        talk_as(token, cli.record()["url"], work.finish)
    assert len(lines(tmp_path / "state", "calls")) == 1
    assert lines(tmp_path / "state", "cancelled") == []


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("mode", MODES)
def test_no_call_of_a_client_that_waits_is_made_twice(
    tmp_path: Path, mode: Mode, effort: Effort
) -> None:
    """mcp:transports: it waits through a restart of the server.

    It is told if its gateway ends, and ends the task with itself.
    """
    seconds, outcomes = effort.times(WORK_S, LEAST_S), dict[str, str]()

    async def call(cli: Cli, name: str, **more: Any) -> None:
        given = {"tool": "tasks__work", "arguments": {"seconds": seconds, **more}}
        async with Client(stdio_client(parameters(cli)), mode=mode) as client:
            with anyio.fail_after(seconds + PATIENCE_S):
                try:
                    result = await client.call_tool(TOOL, given)
                    outcomes[name] = f"error={result.is_error}"
                except MCPError as error:
                    outcomes[name] = error.message

    async def calls_at_work(cli: Cli, count: int) -> None:
        """Waits until the server has this many calls, and works for a while."""

        def begun() -> bool:
            return len(lines(cli.home / "state", "calls")) >= count

        await anyio.to_thread.run_sync(until, begun, "calls at the server")
        await anyio.sleep(seconds / 5)

    async def leave(cli: Cli) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call, cli, "leaves")
            await calls_at_work(cli, 1)
            tasks.cancel_scope.cancel()

    async def work(kept: Cli, killed: Cli) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(call, kept, "waits", dies=True))
            await leave(killed)
            tasks.start_soon(call, killed, "loses its gateway")
            await calls_at_work(killed, 2)
            await anyio.to_thread.run_sync(kill_gateway, killed)

    with configured(tmp_path / "kept") as kept, configured(tmp_path / "killed") as killed:
        anyio.run(work, kept, killed)
    assert outcomes.pop("waits") == "error=False"
    assert "whether it was done is unknown" in outcomes.pop("loses its gateway")
    assert outcomes == {}
    for home, calls, cancelled in ((kept.home, 1, []), (killed.home, 2, ["task-1"])):
        assert len(lines(home / "state", "calls")) == calls
        assert lines(home / "state", "cancelled") == cancelled
