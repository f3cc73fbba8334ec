"""Long calls that servers continue as tasks (SEP-2663): their callers wait for the result."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.shared.exceptions import MCPError
from tests.support import HELPERS
from tests.surfaces.mcp.test_mcp import MODES, Mode, gateway, talk

_Raw: TypeAlias = dict[str, Any]
TASKS = advertise("io.modelcontextprotocol/tasks")


def entry(state: Path) -> _Raw:
    args = [str(HELPERS / "tasks.py"), str(state)]
    return {"command": sys.executable, "args": args, "permissions": {"*": "allow"}}


def lines(state: Path, name: str) -> list[str]:
    file = state / name
    return file.read_text("utf-8").splitlines() if file.exists() else []


def text(result: Mapping[str, Any]) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("mode", MODES)
def test_a_client_waits_for_the_result(tmp_path: Path, mode: Mode) -> None:
    """It hears of progress, answers questions, and ends the task by ending its call.

    So does one that knows tasks.
    """
    state, heard = tmp_path / "state", list[str | None]()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        heard.append(message)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        del context
        assert params.message == "tasks asks: Which colour?"
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async def work(client: Client) -> None:
        async def call(**arguments: Any) -> types.CallToolResult:
            given = {"seconds": 0.5, **arguments}
            return await client.call_tool("tasks__work", given, progress_callback=hear)

        done = await call(asks=["colour", "password"])
        said = json.loads(text(done.model_dump()))
        assert said["colour"] == {"action": "accept", "content": {"colour": "blue"}}
        assert said["password"] == {"action": "decline"}
        with pytest.raises(MCPError, match="the oven is cold"):
            await call(fails=True)
        assert "half done" in heard
        assert not (await call(dies=True)).is_error  # its server is started again meanwhile
        assert len(text((await call(size=3_000_000)).model_dump())) < 26_000
        with anyio.move_on_after(1):
            await call(seconds=60)
        with anyio.fail_after(10):
            while lines(state, "cancelled") != ["task-5"]:  # noqa: ASYNC110 - a file
                await anyio.sleep(0.05)

    with gateway(tmp_path, tasks=entry(state)) as address:
        more = {"elicitation_callback": answer, "extensions": [TASKS]}
        talk(f"{address}/mcp/all", work, mode, **more)
    assert len(lines(state, "calls")) == 5
