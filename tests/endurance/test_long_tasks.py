"""A client waits ten minutes for a task, whose server is started again meanwhile."""

from collections.abc import Generator
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
from tests.support import FUZZY, PATIENCE_S, Cli, kill_all, until
from tests.surfaces.mcp.test_mcp import MODES, Mode, parameters
from tests.surfaces.mcp.test_tasks import entry, lines

WORK_S, LEAST_S = 600, 5
TOOL = "call_destructive_tool"


@contextmanager
def configured(home: Path) -> Generator[Cli]:
    """A command line over the server of tasks, whose gateways end with the block."""
    home.mkdir(exist_ok=True)
    cli = Cli(home, FUZZY | {"TOOLSCRIPT_PORT": "0"})
    cli.configure(tasks=entry(home / "state"))
    with cli:
        yield cli


def kill_gateway(cli: Cli) -> None:
    kill_all([cli.record()["pid"]])


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
