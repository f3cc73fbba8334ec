"""What a token does not grant stays out of sight at every endpoint of the protocol."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import httpx2
import mcp_types as types
import pytest
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.support import FUZZY, PATIENCE_S, READ_FILE, Cli, Scripted, create_token, fetch, tool

pytestmark = pytest.mark.both_storages
Heard: TypeAlias = MemoryObjectReceiveStream[object]
Mode: TypeAlias = Literal["auto", "legacy"]
MODES: list[Mode] = ["auto", "legacy"]
ENDPOINTS = ["/mcp", "/mcp/search", "/mcp/two-phase", "/mcp/all"]
OWN, FOREIGN = "files__read_file", "mail__send_mail"
SECRET = "Zanzibar"  # noqa: S105 - a word that only the other server says
ASKED: dict[str, list[dict[str, Any]]] = {
    "search_tools": [{"query": "send_mail"}, {"query": "mail to somebody", "limit": 100}],
    "tool_search": [{"query": "send_mail"}, {"query": "mail to somebody", "max_tools": 100}],
    "describe_tools": [{"tools": [FOREIGN]}, {"tools": ["mail:send_mail"]}],
    "call_destructive_tool": [{"tool": FOREIGN}, {"tool": "mail:send_mail"}],
    FOREIGN: [{}],
}
"""Every way to a tool that is not granted."""


class Bounded:
    """A gateway of two servers, and what the bearer of a token of one of them sees."""

    def __init__(self, cli: Cli, scripted: Scripted, home: Path, **more: Any) -> None:
        self.calls, self.files, self.mail = home / "calls", home / "files", home / "mail"
        self.files.write_text(json.dumps([READ_FILE]), "utf-8")
        send = tool("send_mail", f"Send a mail to somebody in {SECRET}")
        self.mail.write_text(json.dumps([send]), "utf-8")
        mail = scripted(tools_file=str(self.mail), calls=str(self.calls))
        cli.env = FUZZY
        files = scripted(tools_file=str(self.files))
        cli.configure(files=files, mail=mail | {"pinTools": ["*"]}, **more)
        self.url = cli.start_gateway()
        self.token, self.other = (
            create_token(cli, *more)["token"] for more in (["--server", "files"], [])
        )

    def add(self, listed: Path, name: str) -> None:
        """Another tool of a server."""
        now = [*json.loads(listed.read_text("utf-8")), tool(name)]
        listed.write_text(json.dumps(now), "utf-8")

    @asynccontextmanager
    async def client(
        self, token: str, endpoint: str, mode: Mode, **more: Any
    ) -> AsyncGenerator[Client]:
        """A client that shows a token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as sends:
            server = streamable_http_client(self.url + endpoint, http_client=sends)
            async with Client(server, mode=mode, **more) as client:
                yield client

    @asynccontextmanager
    async def hearing(self, token: str, mode: Mode) -> AsyncGenerator[tuple[Client, Heard]]:
        """A client, and what it is told of changes, as either era has it."""
        tell, heard = anyio.create_memory_object_stream[object](10)

        async def told(message: object) -> None:
            if mode == "legacy" and isinstance(message, types.ToolListChangedNotification):
                await tell.send(message)

        async def listen(client: Client, *, task_status: TaskStatus[None]) -> None:
            async with client.listen(tools_list_changed=True) as events:
                task_status.started()
                async for event in events:
                    await tell.send(event)

        async with (
            tell,
            heard,
            self.client(token, "/mcp/all", mode, message_handler=told) as client,
            anyio.create_task_group() as tasks,
        ):
            await client.list_tools()
            if mode == "auto":
                await tasks.start(listen, client)
            yield client, heard
            tasks.cancel_scope.cancel()

    def rpc(self, method: str, **params: Any) -> str:
        """What ``/message`` answers the bearer."""
        headers = {"Authorization": f"Bearer {self.token}"}
        body = json.dumps({"method": method, "params": params, "id": 1}).encode()
        status, answer = fetch(self.url, "/message", method="POST", headers=headers, body=body)
        assert status == 200
        return json.dumps(answer)


@pytest.fixture
def bounded(cli: Cli, scripted: Scripted, tmp_path: Path) -> Bounded:
    return Bounded(cli, scripted, tmp_path)


def check(answer: str) -> None:
    """Nothing of the other server is in it but what the question said."""
    assert SECRET not in answer
    assert "mail (" not in answer  # as in the summary of what is behind a search
    assert "the nearest are: mail" not in answer


async def said(client: Client, name: str, **arguments: Any) -> str:
    """All that comes back from a call, be it an error of the protocol's."""
    try:
        return (await client.call_tool(name, arguments)).model_dump_json(by_alias=True)
    except MCPError as error:
        return str(error)


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.anyio
async def test_nothing_else_is_found_listed_described_or_called(
    bounded: Bounded, mode: Mode
) -> None:
    """http:others: in every exposure, in either era."""

    async def work(client: Client) -> None:
        listed = (await client.list_tools()).tools
        for name, each in ASKED.items():
            for arguments in each:
                check(await said(client, name, **arguments))
        again = await client.list_tools(cache_mode="refresh")
        check(again.model_dump_json())
        assert FOREIGN not in {each.name for each in (*listed, *again.tools)}
        own = {"query": "read_file"}
        finds = {"search_tools", "tool_search"} & {each.name for each in listed}
        assert all(["read_file" in await said(client, name, **own) for name in finds])
        direct = OWN in {each.name for each in again.tools}
        called = said(client, OWN) if direct else said(client, "call_destructive_tool", tool=OWN)
        assert '"isError":false' in await called

    with anyio.fail_after(PATIENCE_S):
        for endpoint in ENDPOINTS:
            async with bounded.client(bounded.token, endpoint, mode) as client:
                await work(client)
    assert not bounded.calls.exists()


@pytest.mark.requirement("http:others")
def test_nothing_else_is_told_in_messages(bounded: Bounded) -> None:
    listed = bounded.rpc("tools/list")
    check(listed)
    assert FOREIGN not in listed
    for name, each in ASKED.items():
        for arguments in each:
            check(bounded.rpc("tools/call", name=name, arguments=arguments))
    assert "files:read_file" in bounded.rpc(
        "tools/call", name="search_tools", arguments={"query": "read_file"}
    )
    assert not bounded.calls.exists()


@pytest.mark.requirement("http:others")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.anyio
async def test_of_changes_it_hears_its_own(bounded: Bounded, mode: Mode) -> None:
    """http:others: that there is more to see for others is no news."""
    with anyio.fail_after(PATIENCE_S):
        async with (
            bounded.hearing(bounded.token, mode) as (client, heard),
            bounded.hearing(bounded.other, mode) as (_, all_heard),
        ):
            bounded.add(bounded.mail, "wipe")
            await all_heard.receive()
            bounded.add(bounded.files, "write_file")
            await heard.receive()
            listed = (await client.list_tools(cache_mode="refresh")).tools
            names = {each.name for each in listed} - {"read_result"}
            assert names == {"files__read_file", "files__write_file"}
            assert heard.statistics().current_buffer_used == 0


@pytest.mark.requirement("http:others")
@pytest.mark.servers
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.anyio
async def test_prompts_and_resources_of_others_are_not_passed_on(
    cli: Cli, scripted: Scripted, tmp_path: Path, real_servers: dict[str, Any], mode: Mode
) -> None:
    """http:others: neither listed nor to be had by their names."""
    bounded = Bounded(cli, scripted, tmp_path, everything=real_servers["everything"])
    prompt: dict[str, Any] = {"name": "everything__args-prompt", "arguments": {"city": "Ghent"}}
    bearers = [
        bounded.token,
        create_token(cli, "--tool", "everything__?")["token"],
        create_token(cli, "--permission", "everything__*=deny")["token"],
    ]
    path = cli.home / ".toolscript.json"
    before = path.read_text("utf-8")
    path.write_text(json.dumps({**json.loads(before), "profiles": {"gone": {}}}), "utf-8")
    bearers.append(create_token(cli, "--profile", "gone")["token"])
    path.write_text(before, "utf-8")
    with anyio.fail_after(PATIENCE_S):
        async with bounded.client(bounded.other, "/mcp", mode) as owner:
            assert (await owner.list_prompts()).prompts
            uri = (await owner.list_resources()).resources[0].uri
            assert (await owner.get_prompt(**prompt)).messages
        for bearer in bearers:
            async with bounded.client(bearer, "/mcp", mode) as client:
                assert (await client.list_prompts()).prompts == []
                assert (await client.list_resources()).resources == []
                assert (await client.list_resource_templates()).resource_templates == []
                for denied in (
                    partial(client.get_prompt, **prompt),
                    partial(client.read_resource, uri),
                ):
                    with pytest.raises(MCPError, match="no server"):
                        await denied()
        assert '"prompts": []' in bounded.rpc("prompts/list")
        assert "no server" in bounded.rpc("prompts/get", **prompt)
        assert '"resources": []' in bounded.rpc("resources/list")
        assert "no server" in bounded.rpc("resources/read", uri=uri)
