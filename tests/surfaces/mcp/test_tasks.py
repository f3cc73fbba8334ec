"""Long calls that servers continue as tasks (SEP-2663), over HTTP and the bridge."""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter
from tests.support import FUZZY, HELPERS, PATIENCE_S, Cli, create_token
from tests.surfaces.mcp.test_mcp import MODES, Mode, gateway, parameters, talk

_Raw: TypeAlias = dict[str, Any]
TASKS_ID = "io.modelcontextprotocol/tasks"
TASKS = advertise(TASKS_ID)
ANSWER: TypeAdapter[Any] = TypeAdapter(_Raw)
FINAL = {"completed", "failed", "cancelled"}


def entry(state: Path, *more: str) -> _Raw:
    args = [str(HELPERS / "tasks.py"), str(state), *more]
    return {"command": sys.executable, "args": args, "permissions": {"*": "allow"}}


def talk_as(token: str, address: str, work: Callable[[Client], Awaitable[None]]) -> None:
    """A session of a client that shows a token."""

    async def session() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as sender:
            server = streamable_http_client(f"{address}/mcp", http_client=sender)
            async with Client(server, mode="auto", extensions=[TASKS]) as client:
                await work(client)

    anyio.run(session)


async def ask(client: Client, method: str, **params: Any) -> _Raw:
    """Sends a request; the answer is what came over the wire."""
    request = types.Request[_Raw, str](method=method, params=params)
    return await client.session.send_request(request, ANSWER)


async def begin(client: Client, **arguments: Any) -> str:
    """Calls the tool through a meta tool; returns the id of the task."""
    given = {"tool": "tasks__work", "arguments": {"seconds": 0.2, **arguments}}
    answer = await ask(client, "tools/call", name="call_destructive_tool", arguments=given)
    assert answer["resultType"] == "task", answer
    assert answer["status"] in {"working", "input_required"}
    return str(answer["taskId"])


async def final(client: Client, task: str, patience_s: float = 30) -> _Raw:
    """Polls a task until it is final."""
    with anyio.fail_after(patience_s):
        while True:
            state = await ask(client, "tasks/get", taskId=task)
            assert (state["taskId"], state["resultType"]) == (task, "complete")
            if state["status"] in FINAL:
                return state
            await anyio.sleep(state["pollIntervalMs"] / 1000)


def lines(state: Path, name: str) -> list[str]:
    file = state / name
    return file.read_text("utf-8").splitlines() if file.exists() else []


def text(result: Mapping[str, Any]) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("way", ["http", "bridge"])
def test_a_client_that_knows_tasks_gets_and_asks_for_them(tmp_path: Path, way: str) -> None:
    state = tmp_path / "state"

    async def work(client: Client) -> None:
        task = await begin(client, asks=["colour", "password"])
        assert "task-1" not in task
        asked = await ask(client, "tasks/get", taskId=task)
        [[key, question]] = asked["inputRequests"].items()  # that for a secret was declined
        assert (asked["status"], key) == ("input_required", "colour")
        assert question["params"]["message"] == "tasks asks: Which colour?"
        answer = {"action": "accept", "content": {"colour": "red"}}
        await ask(client, "tasks/update", taskId=task, inputResponses={"colour": answer})
        done = await final(client, task)
        assert json.loads(text(done["result"])) == {
            "password": {"action": "decline"},
            "colour": answer,
        }
        failed = await final(client, await begin(client, fails=True))
        assert (failed["status"], failed["error"]["message"]) == ("failed", "the oven is cold")
        stopped = await begin(client, seconds=60)
        await ask(client, "tasks/cancel", taskId=stopped)
        assert (await final(client, stopped))["status"] == "cancelled"
        assert lines(state, "cancelled") == ["task-3"]
        long = (await final(client, await begin(client, size=3_000_000)))["result"]
        assert len(json.dumps(long)) < 26_000
        assert "read_result" in json.dumps(long)
        for wrong in ("task-1", "", "x" * 5000, task[:-6] + "AAAAA=", f"other.{task[1:]}"):
            with pytest.raises(MCPError, match="no such task"):
                await ask(client, "tasks/get", taskId=wrong)

    with gateway(tmp_path, tasks=entry(state)) as address:
        bridge = stdio_client(parameters(Cli(tmp_path, FUZZY)))
        server = bridge if way == "bridge" else f"{address}/mcp"
        talk(server, work, "auto", extensions=[TASKS])
    assert len(lines(state, "calls")) == 4


@pytest.mark.parametrize("mode", MODES)
def test_any_other_client_waits_for_the_result(tmp_path: Path, mode: Mode) -> None:
    """It hears of progress, answers questions, and ends the task by ending its call."""
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

        done = await call(asks=["colour"])
        assert '"colour": "blue"' in getattr(done.content[0], "text", "").replace("'", '"')
        with pytest.raises(MCPError, match="the oven is cold"):
            await call(fails=True)
        assert "half done" in heard
        assert not (await call(dies=True)).is_error  # its server is started again meanwhile
        assert len(getattr((await call(size=40_000)).content[0], "text", "")) < 26_000
        with anyio.move_on_after(1):
            await call(seconds=60)
        with anyio.fail_after(10):
            while lines(state, "cancelled") != ["task-5"]:  # noqa: ASYNC110 - a file
                await anyio.sleep(0.05)

    with gateway(tmp_path, tasks=entry(state)) as address:
        talk(f"{address}/mcp/all", work, mode, elicitation_callback=answer)
    assert len(lines(state, "calls")) == 5


@pytest.mark.parametrize("mode", MODES)
def test_a_client_has_to_declare_that_it_knows_tasks(tmp_path: Path, mode: Mode) -> None:
    async def work(client: Client) -> None:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as refused:
                await ask(client, method, taskId="x", inputResponses={})
            assert refused.value.code == -32021
            assert refused.value.data == {"requiredCapabilities": {"extensions": {TASKS_ID: {}}}}

    with gateway(tmp_path, tasks=entry(tmp_path / "state")) as address:
        talk(f"{address}/mcp", work, mode)


def test_a_task_outlives_client_and_gateway_and_is_its_holders(tmp_path: Path) -> None:
    """No call is made twice, and no other token gets at it."""
    state, kept = tmp_path / "state", list[str]()

    async def start(client: Client) -> None:
        kept.append(await begin(client, seconds=3))

    async def go_on(client: Client) -> None:
        assert (await final(client, kept[0]))["status"] == "completed"

    async def steal(client: Client) -> None:
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError, match="no such task"):
                await ask(client, method, taskId=kept[0], inputResponses={})

    with gateway(tmp_path, tasks=entry(state)) as address:
        tokens = [create_token(Cli(tmp_path), "--server", "tasks")["token"] for _ in range(2)]
        talk_as(tokens[0], address, start)
    with gateway(tmp_path, tasks=entry(state)) as address:
        for token, does in zip(tokens, (go_on, steal), strict=True):
            talk_as(token, address, does)
    assert len(lines(state, "calls")) == 1
