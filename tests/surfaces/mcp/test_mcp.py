"""The MCP surface, used by the SDK's own client: over HTTP, over stdio, in either era."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from tests.support import (
    FUZZY,
    PATIENCE_S,
    READ_FILE,
    SEND_MAIL,
    WRITES,
    Cli,
    Scripted,
    fetch,
    post,
    processes,
    tool,
    until,
)

from toolscript.surfaces.mcp.sdk_server import fitting

Mode: TypeAlias = Literal["auto", "legacy"]
MODES: list[Mode] = ["auto", "legacy"]
ADD = tool(
    "add",
    "Add two numbers",
    inputSchema={
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
)
RESULT: dict[str, Any] = {
    "content": [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///e", "text": "t"}},
    ],
    "structuredContent": {"n": [1, None]},
    "isError": True,
    "_meta": {"vendor/x": 1},
}


@contextmanager
def gateway(home: Path, **servers: Any) -> Generator[str]:
    """A gateway over these servers; its URL."""
    cli = Cli(home, FUZZY)
    cli.configure(**servers)
    with cli:
        yield cli.start_gateway()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def url(home: Path) -> Generator[str]:
    """A gateway with two servers, one of which has a pinned tool."""
    scripted = Scripted(home)
    files = scripted(
        READ_FILE,
        tool("list_files", "List the files of a directory"),
        tool("x" * 90, "A name that no vendor accepts"),
    )
    mail = scripted(
        SEND_MAIL,
        ADD,
        tool("mixed"),
        tool("refuses"),
        tool("hang") | WRITES,
        results={"mixed": RESULT},
        errors={"refuses": {"code": -32042, "message": "pay first", "data": {"url": "u"}}},
        silent=["hang"],
        progress=3,
        calls=str(home / "calls"),
        cancels=str(home / "cancels"),
    )
    with gateway(home, files=files, mail=mail | {"pinTools": ["send_*"]}) as address:
        yield address


def talk(
    server: Any, work: Callable[[Client], Awaitable[None]], mode: Mode = "legacy", **more: Any
) -> None:
    """A client's whole session."""

    async def session() -> None:
        with anyio.fail_after(PATIENCE_S):
            async with Client(server, mode=mode, **more) as client:
                await work(client)

    anyio.run(session)


CALLS = ("read_tool", "call_tool", "call_destructive_tool")


async def asks_nobody(context: Any, params: Any) -> types.ElicitResult:
    """What makes a client one that can ask its user, where that is not to happen."""
    raise AssertionError(f"a user is asked: {context}, {params}")


async def names(client: Client) -> list[str]:
    return [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]


async def said(client: Client, name: str, arguments: dict[str, Any], **more: Any) -> Any:
    """What a tool that answers in JSON says; a search does with ``detail``."""
    result = await client.call_tool(name, arguments, **more)
    [block] = result.content
    assert isinstance(block, types.TextContent)
    assert not result.is_error, block.text
    return json.loads(block.text)


async def failure(client: Client, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    [block] = result.content
    assert isinstance(block, types.TextContent)
    assert result.is_error
    return block.text


# Search


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("mode", MODES)
def test_models_see_the_search_and_what_is_pinned(url: str, mode: Mode) -> None:
    """mcp:transports: five tools, and the names of the servers behind them."""

    async def work(client: Client) -> None:
        listed = (await client.list_tools()).tools
        assert [each.name for each in listed] == [
            "search_tools",
            "describe_tools",
            *CALLS,
            "read_result",
            "mail__send_mail",
        ]
        assert "among the tools of files, mail. " in (listed[0].description or "")
        assert all((each.meta or {})["anthropic/alwaysLoad"] for each in listed[:-1])
        instructions = client.instructions or ""
        assert instructions.startswith("Behind this server are the tools of files, mail. ")
        assert "search_tools" in instructions
        assert len(instructions) <= 600
        assert (await said(client, "mail__send_mail", {}))["name"] == "send_mail"

    talk(f"{url}/mcp", work, mode)


@pytest.mark.requirement("mcp:missing")
def test_a_search_names_the_servers_that_it_missed(tmp_path: Path) -> None:
    """mcp:missing: in both searches, over MCP and over HTTP."""
    scripted = Scripted(tmp_path)
    gone = scripted(exit=1, stderr="no key\n")

    def check(row: dict[str, Any]) -> None:
        assert row["server"] == "gone"
        assert row["why"] == "closed the connection before it was ready"  # its words: the owner's

    async def search(client: Client) -> None:
        answer = await said(client, "search_tools", {"detail": True, "query": "read_file"})
        assert [hit["id"] for hit in answer["tools"]] == ["files:read_file"]
        [row] = answer["meta"]["not_searched"]
        check(row)

    async def find(client: Client) -> None:
        [row] = (await said(client, "tool_search", {"detail": True, "query": "read_file"}))[
            "not_searched"
        ]
        check(row)

    with gateway(tmp_path, files=scripted(READ_FILE), gone=gone) as address:
        talk(f"{address}/mcp", search)
        talk(f"{address}/mcp/two-phase", find)
        [row] = httpx2.get(f"{address}/search?q=read_file").json()["notSearched"]
        check(row)
        among = httpx2.get(f"{address}/search?q=read_file&server=files").json()
        assert among["notSearched"] == []


@pytest.mark.requirement("mcp:search_tools")
@pytest.mark.parametrize("mode", MODES)
def test_search_tools_answers_as_the_seed_has_it(url: str, mode: Mode) -> None:
    async def work(client: Client) -> None:
        answer = await said(client, "search_tools", {"detail": True, "query": "read_file"})
        meta = answer["meta"]
        assert meta.keys() == {"query", "alpha", "graph_edges", "degraded"}
        assert (meta["query"], meta["alpha"]) == ("read_file", 1)
        assert len(answer["tools"]) == 8
        first = answer["tools"][0]
        assert first["id"] == "files:read_file"
        assert (first["name"], first["server"]) == ("read_file", "files")
        assert first["description"] == READ_FILE["description"]
        assert first["score"] == first["semantic_score"] == 1
        assert first["graph_score"] == 0
        scores = [each["score"] for each in answer["tools"]]
        assert scores == sorted(scores, reverse=True)
        again: dict[str, Any] = {"query": "read", "limit": 2, "detail": True}
        again["context_tools"] = ["files:list_files", "gone:x"]
        assert len((await said(client, "search_tools", again))["tools"]) == 2
        result = await client.call_tool("search_tools", {"query": "x", "detail": True})
        [block] = result.content
        assert isinstance(block, types.TextContent)
        assert json.loads(block.text)["tools"]
        assert result.structured_content is None

    talk(f"{url}/mcp/search", work, mode)


@pytest.mark.requirement("mcp:search_tools")
def test_what_was_found_is_described_and_called(url: str) -> None:
    """mcp:search_tools: by the id that the search gives, its own id, or its exposed name."""

    async def work(client: Client) -> None:
        answer = await said(client, "describe_tools", {"tools": ["mail:add"]})
        [described] = answer["tools"]
        assert described["inputSchema"] == ADD["inputSchema"]
        answer = await said(client, "describe_tools", {"tools": ["mail:adz", "mail:add"]})
        assert answer["tools"] == [described]
        [missing] = answer["missing"]
        assert missing.startswith("no tool is called 'mail:adz'")
        given = {"a": 1, "b": 2}
        for name in ("mail:add", "mail__add"):
            answer = await said(client, "call_destructive_tool", {"tool": name, "arguments": given})
            assert answer["arguments"] == given
        beside = {"tool": "mail:add", "arguments": given, "a": 3, "explanation": "to add"}
        assert (await said(client, "call_destructive_tool", beside))["arguments"] == given
        text = {"tool": "mail:add", "arguments": json.dumps(given)}
        assert (await said(client, "call_destructive_tool", text))["arguments"] == given

    talk(f"{url}/mcp", work)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("search_tools", {}, "search_tools: query is missing. It takes query (string, required)"),
        (
            "search_tools",
            {"query": "x", "limit": 1000},
            "limit is 1000; it is greater than the maximum",
        ),
        ("search_tools", {"query": " "}, "the query is empty"),
        ("describe_tools", {"tools": ["mail:adz"]}, "the nearest are: mail__add"),
        ("call_destructive_tool", {"tool": "mail:adz"}, "no tool is called 'mail:adz'"),
        ("read_tool", {"tool": "search_tools"}, "call toolscript's search_tools directly"),
        (
            "call_destructive_tool",
            {"tool": "mail:add", "arguments": {"a": 1}},
            "mail__add: b is missing",
        ),
        (
            "call_destructive_tool",
            {"tool": "mail:add", "arguments": "{"},
            'arguments is "{"; expected object',
        ),
        (
            "call_destructive_tool",
            {"tool": "mail:add", "a": 1, "b": 2, "why": "x"},
            "put these inside arguments, not beside it: a, b",
        ),
        (
            "call_destructive_tool",
            {"tool": "mail:add", "args": {"a": 1, "b": 2}},
            "args is not known; did you mean arguments?",
        ),
        ("call_tool", {"tool": "mail:adz", "a": 1}, "no tool is called 'mail:adz'"),
    ],
)
def test_a_mistake_is_told_to_the_model(
    url: str, name: str, arguments: dict[str, Any], expected: str
) -> None:
    """As a result, which models read, and with what to do."""

    async def work(client: Client) -> None:
        told = await failure(client, name, arguments)
        assert expected in told
        assert "include_skills" not in told, "there are no skills"

    talk(f"{url}/mcp", work)


def test_a_misspelt_meta_tool_is_named(url: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(MCPError, match="call toolscript's search_tools directly"):
            await client.call_tool("search_tool", {"query": "x"})

    talk(f"{url}/mcp", work)


def test_numbers_in_strings_are_read_where_models_search(url: str) -> None:
    """Over the plain proxy the server gets what was sent, and judges it."""
    given = {"a": "1", "b": "[2]"}

    async def search(client: Client) -> None:
        call = {"tool": "mail:add", "arguments": {"a": "1", "b": "2"}}
        answer = await said(client, "call_destructive_tool", call)
        assert answer["arguments"] == {"a": 1, "b": 2}

    async def proxy(client: Client) -> None:
        assert (await said(client, "mail__add", given))["arguments"] == given

    talk(f"{url}/mcp", search)
    talk(f"{url}/mcp/all", proxy)


# All


@pytest.mark.requirement("catalogue:ids")
@pytest.mark.parametrize("mode", MODES)
def test_every_tool_as_a_plain_proxy(url: str, mode: Mode) -> None:
    async def work(client: Client) -> None:
        listed = await names(client)
        plain = {"files__read_file", "files__list_files", "mail__add", "mail__send_mail"}
        assert plain < set(listed)
        assert "search_tools" not in listed
        assert all(len(name) <= 46 for name in listed)
        [odd] = [name for name in listed if "xxxx" in name]
        assert (await said(client, odd, {}))["name"] == "x" * 90

    talk(f"{url}/mcp/all", work, mode)


def test_a_tool_that_a_protocol_cannot_list_costs_only_itself() -> None:
    """upstream:isolation: an array as output is known to the newest protocol only."""
    tools: list[dict[str, Any]] = [tool("plain"), tool("new", outputSchema={"type": "array"})]
    assert fitting("2025-11-25", tools) == tools[:1]
    assert fitting("2026-07-28", tools) == tools


@pytest.mark.parametrize("mode", MODES)
def test_a_result_is_passed_on_unchanged(url: str, mode: Mode) -> None:
    async def work(client: Client) -> None:
        result = await client.call_tool("mail__mixed", {})
        raw = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        meta = {k: v for k, v in raw.pop("_meta").items() if not k.startswith("io.model")}
        raw.pop("resultType", None)
        assert {**raw, "_meta": meta} == RESULT

    talk(f"{url}/mcp/all", work, mode)


def test_a_servers_refusal_is_passed_on_after_its_name(url: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("mail__refuses", {})
        assert (refused.value.code, refused.value.message) == (-32042, "mail: pay first")
        assert refused.value.data == {"url": "u"}
        with pytest.raises(MCPError, match="no tool is called 'nothing'"):
            await client.call_tool("nothing", {})

    talk(f"{url}/mcp/all", work)


@pytest.mark.parametrize("mode", MODES)
def test_progress_comes_through(url: str, mode: Mode) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def work(client: Client) -> None:
        await client.call_tool("mail__add", {"a": 1, "b": 2}, progress_callback=told)

    talk(f"{url}/mcp/all", work, mode)
    assert heard == [(n, 3, f"step {n}") for n in (1, 2, 3)]


@pytest.mark.parametrize("more", [{}, {"elicitation_callback": asks_nobody}])
@pytest.mark.parametrize("mode", MODES)
def test_a_cancelled_call_is_cancelled_on_the_server(
    url: str, home: Path, mode: Mode, more: dict[str, Any]
) -> None:
    calls, cancels = home / "calls", home / "cancels"
    before = len(cancels.read_text("utf-8").splitlines()) if cancels.exists() else 0
    calls.write_text("", "utf-8")

    async def work(client: Client) -> None:
        async with anyio.create_task_group() as tasks:
            nothing: dict[str, Any] = {}
            tasks.start_soon(client.call_tool, "mail__hang", nothing)
            await anyio.to_thread.run_sync(
                until, lambda: '"hang"' in calls.read_text("utf-8"), "the call has arrived"
            )
            tasks.cancel_scope.cancel()

    def told() -> bool:
        return cancels.exists() and len(cancels.read_text("utf-8").splitlines()) > before

    talk(f"{url}/mcp/all", work, mode, **more)
    until(told, "the server is told")


# Two phases


@pytest.mark.requirement("mcp:tool_search")
@pytest.mark.parametrize("mode", MODES)
def test_two_phases(url: str, mode: Mode) -> None:
    """mcp:tool_search: what was found is listed, the client is told, others see nothing of it."""
    heard: list[str] = []

    async def handler(message: Any) -> None:
        heard.append(type(message).__name__)

    async def work(client: Client) -> None:
        first = (await client.list_tools()).tools
        assert [each.name for each in first] == ["tool_search", "mail__send_mail"]
        assert set(first[0].input_schema["properties"]) == {"query", "max_tools", "detail"}
        answer = await said(
            client, "tool_search", {"detail": True, "query": "read_file", "max_tools": 2}
        )
        found = [each["name"] for each in answer["tools"]]
        assert (found[0], len(found)) == ("files__read_file", 2)
        assert answer["tools"][0]["score"] == 1
        assert "ToolListChangedNotification" in heard
        assert set(await names(client)) == {"tool_search", "mail__send_mail", *found}
        assert (await said(client, "files__read_file", {}))["name"] == "read_file"
        await said(client, "tool_search", {"detail": True, "query": "add", "max_tools": 1})
        assert set(await names(client)) == {"tool_search", "mail__send_mail", "mail__add"}
        async with Client(f"{url}/mcp/two-phase", mode=mode) as other:
            assert await names(other) == ["tool_search", "mail__send_mail"]

    talk(f"{url}/mcp/two-phase", work, mode, message_handler=handler)


@pytest.mark.requirement("mcp:tool_search")
def test_a_client_that_ignores_changes_can_call_at_once(url: str) -> None:
    async def work(client: Client) -> None:
        answer = await said(client, "tool_search", {"detail": True, "query": "list the files"})
        assert len(answer["tools"]) == 4
        call: dict[str, Any] = {"tool": answer["tools"][0]["name"], "arguments": {}}
        assert (await said(client, "call_destructive_tool", call))["name"]

    talk(f"{url}/mcp/two-phase", work)


# Changes


# Questions


@pytest.mark.parametrize("mode", MODES)
def test_a_question_reaches_the_user_and_the_answer_the_server(
    scripted: Scripted, tmp_path: Path, mode: Mode
) -> None:
    """Elicitation both ways, of a client that can ask; for others the server is told.

    The server asks in the middle of a call; a client of the newest protocol is asked in a
    result, and what it then sends goes on with the same call.
    """
    asked: list[Any] = []

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        del context
        asked.append(params)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def work(client: Client) -> None:
        assert await said(client, "s__greet", {}) == {
            "action": "accept",
            "content": {"name": "Ada"},
        }

    async def refused(client: Client) -> None:
        assert "cannot ask" in (await said(client, "s__greet", {}))["message"]

    with gateway(tmp_path, s=scripted(tool("greet") | WRITES, elicits="Who are you?")) as url:
        talk(f"{url}/mcp/all", work, mode, elicitation_callback=ask)
        assert asked[0].message == "s asks: Who are you?"
        talk(f"{url}/mcp/all", refused, mode)


def test_only_the_same_request_goes_on_with_a_held_call(scripted: Scripted, tmp_path: Path) -> None:
    """And only once: what is not held any more has to be begun anew."""

    async def work(client: Client) -> None:
        async def call(name: str, **more: Any) -> Any:
            return await client.session.call_tool(name, {}, allow_input_required=True, **more)

        asked = await call("s__greet")
        assert asked.result_type == "input_required"
        [(key, question)] = asked.input_requests.items()
        assert question.params.message == "s asks: Who are you?"
        answers = {key: types.ElicitResult(action="accept", content={"name": "Ada"})}
        more = {"request_state": asked.request_state, "input_responses": answers}
        with pytest.raises(MCPError, match="no such call waits"):
            await call("s__other", **more)
        done = await call("s__greet", **more)
        assert "Ada" in done.content[0].text
        with pytest.raises(MCPError, match="no such call waits"):
            await call("s__greet", **more)
        asked = await call("s__greet")
        declined = await call("s__greet", request_state=asked.request_state)
        assert "did not answer" in declined.content[0].text

    with gateway(
        tmp_path, s=scripted(tool("greet") | WRITES, tool("other"), elicits="Who are you?")
    ) as url:
        talk(f"{url}/mcp/all", work, "auto", elicitation_callback=asks_nobody)


# JSON-RPC


def rpc(url: str, method: str, **params: Any) -> Any:
    status, answer = post(url, "/message", {"method": method, "params": params, "id": 7})
    assert status == 200
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    return answer


@pytest.mark.requirement("mcp:search_tools")
def test_the_seeds_own_request(url: str) -> None:
    """mcp:search_tools: as curl sends it, with neither a version nor an id nor a content type."""
    call = {"method": "tools/call"}
    call["params"] = {"name": "search_tools", "arguments": {"query": "read_file"}}  # type: ignore[assignment]
    status, answer = fetch(url, "/message", method="POST", body=json.dumps(call).encode())
    assert (status, answer["id"]) == (200, None)
    found = json.loads(answer["result"]["content"][0]["text"])
    assert found["tools"][0]["id"] == "files:read_file"
    assert set(found["tools"][0]) >= {
        *("id", "name", "server", "description", "score", "semantic_score", "graph_score")
    }


@pytest.mark.requirement("mcp:search_tools")
def test_messages(url: str) -> None:
    """mcp:search_tools: lists, calls and errors, one request at a time."""
    listed = rpc(url, "tools/list")["result"]["tools"]
    assert [each["name"] for each in listed][:3] == ["search_tools", "describe_tools", "read_tool"]
    given: dict[str, Any] = {"tool": "mail:mixed", "arguments": {}}
    assert rpc(url, "tools/call", name="call_destructive_tool", arguments=given)["result"] == RESULT
    refused = rpc(url, "tools/call", name="mail__refuses", arguments={})["error"]
    assert refused == {"code": -32042, "message": "mail: pay first", "data": {"url": "u"}}
    assert rpc(url, "tools/call", name="nothing")["error"]["code"] == -32602
    assert rpc(url, "nothing/at/all")["error"]["code"] == -32601
    assert rpc(url, "ping")["result"] == {}
    assert rpc(url, "initialize")["result"]["serverInfo"]["name"] == "toolscript"
    assert post(url, "/message", {"method": "notifications/initialized"})[0] == 202
    assert post(url, "/message", [1])[1]["error"]["code"] == -32600
    for odd in (False, [1], {"x": 1}):
        answer = post(url, "/message", {"id": odd, "method": "ping"})[1]
        assert (answer["id"], answer["error"]["code"]) == (None, -32600)


# Standard input and output


def parameters(cli: Cli, *arguments: str) -> StdioServerParameters:
    command, *words = cli.command("mcp", *arguments)
    return StdioServerParameters(command=command, args=words, env=cli.environment())


WAYS = pytest.mark.parametrize("way", [(), ("--alone",)], ids=["bridge", "alone"])


@pytest.mark.requirement("mcp:transports")
@WAYS
@pytest.mark.parametrize("mode", MODES)
def test_over_standard_input_and_output(
    cli: Cli, scripted: Scripted, mode: Mode, way: tuple[str, ...]
) -> None:
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))

    async def work(client: Client) -> None:
        assert await names(client) == ["search_tools", "describe_tools", *CALLS, "read_result"]
        call = {"tool": "files:read_file", "arguments": {"path": "x"}}
        assert (await said(client, "call_destructive_tool", call))["arguments"] == {"path": "x"}
        with anyio.fail_after(30):  # a server that has just come is indexed a moment later
            while True:
                found = await said(client, "search_tools", {"detail": True, "query": "read_file"})
                if found["tools"][0]["id"] == "files:read_file":
                    break

    talk(stdio_client(parameters(cli, *way)), work, mode)


@WAYS
def test_a_byte_order_mark_is_no_part_of_a_message(
    cli: Cli, scripted: Scripted, way: tuple[str, ...]
) -> None:
    """mcp:transports: programs on Windows begin their output with one."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    info = {"name": "c", "version": "1"}
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begun}
    with subprocess.Popen(
        cli.command("mcp", *way),
        env=cli.environment(),
        cwd=cli.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"\xef\xbb\xbf" + json.dumps(asked).encode() + b"\r\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "toolscript"
        process.stdin.close()


@pytest.mark.parametrize("path", ["/mcp/", "/mcp/all/", "/mcp/search/"])
def test_a_slash_at_the_end_is_no_other_address(url: str, path: str) -> None:
    """mcp:transports: clients drop the body or the token on a redirect."""
    info = {"name": "c", "version": "1"}
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begun})
    request = urllib.request.Request(url + path, body.encode(), {  # noqa: S310 - it is ours
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    })  # fmt: skip
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
        assert (answer.url, answer.status) == (url + path, 200)
        assert answer.headers["mcp-session-id"]


@pytest.mark.requirement("upstream:instances")
@WAYS
@pytest.mark.parametrize("mode", MODES)
def test_all_calls_of_a_session_reach_the_instance_that_is_its_own(
    cli: Cli, scripted: Scripted, mode: Mode, way: tuple[str, ...]
) -> None:
    """upstream:instances: as a browser's page that one call opens and the next one reads."""
    cli.env = FUZZY
    cli.configure(s={**scripted(tool("where") | WRITES, tells=True), "share": False})

    async def work(client: Client) -> None:
        call: dict[str, Any] = {"tool": "s:where", "arguments": {}}
        first, second = [await said(client, "call_tool", call) for _ in range(2)]
        assert first["pid"] == second["pid"]

    talk(stdio_client(parameters(cli, *way)), work, mode)


@pytest.mark.requirement("mcp:search_tools")
def test_the_first_search_waits_for_the_index(cli: Cli, scripted: Scripted) -> None:
    """mcp:search_tools: the server is there, as the call shows, but its tools are not indexed."""
    listed = cli.home / "tools.json"
    listed.write_text(json.dumps([READ_FILE, *(tool(f"t{n}") for n in range(3000))]), "utf-8")
    cli.env = FUZZY
    cli.configure(files=scripted(tools_file=str(listed)))

    async def work(client: Client) -> None:
        await said(client, "call_destructive_tool", {"tool": "files:read_file", "arguments": {}})
        found = await said(client, "search_tools", {"detail": True, "query": "read_file"})
        assert found["tools"][0]["id"] == "files:read_file"

    talk(stdio_client(parameters(cli)), work)


@pytest.mark.parametrize("sign", [None, signal.SIGTERM, signal.SIGINT])
def test_alone_it_ends_with_its_client_and_takes_its_servers_along(
    cli: Cli, scripted: Scripted, sign: int | None
) -> None:
    starts = cli.home / "starts"
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE, starts=str(starts)))
    with subprocess.Popen(
        cli.command("mcp", "--alone"),
        env=cli.environment(),
        cwd=cli.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        until(starts.exists, "the server has started")
        if sign is None:
            assert process.stdin is not None
            process.stdin.close()
        else:
            os.kill(process.pid, sign)
        code = process.wait(PATIENCE_S)
        assert code == (0 if sign is None else 128 + sign)
        assert process.stdout is not None
        assert process.stdout.read() == b""
    until(lambda: not processes(f"{scripted.directory}"), "its server has ended")


def test_a_configuration_that_cannot_be_used(cli: Cli) -> None:
    done = cli("mcp")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no .toolscript.json" in done.stderr


# A real server


@pytest.mark.servers
def test_prompts_and_resources_come_through(tmp_path: Path, real_servers: dict[str, Any]) -> None:
    """The official test server's, beside one that has none."""

    async def work(client: Client) -> None:
        prompts = {each.name: each for each in (await client.list_prompts()).prompts}
        assert "everything__args-prompt" in prompts
        answer = await client.get_prompt("everything__args-prompt", {"city": "Ghent"})
        assert "Ghent" in str(answer.messages[0].content)
        resources = (await client.list_resources()).resources
        assert resources
        content = await client.read_resource(resources[0].uri)
        assert content.contents
        templates = (await client.list_resource_templates()).resource_templates
        assert any("{" in each.uri_template for each in templates)
        with pytest.raises(MCPError, match="names no server"):
            await client.read_resource("nothing://at/all")
        with pytest.raises(MCPError):
            await client.get_prompt("nobody__x")

    entry = real_servers["everything"]
    with gateway(tmp_path, everything=entry, time=real_servers["time"]) as url:
        talk(f"{url}/mcp", work)


@pytest.mark.requirement("mcp:transports")
def test_nothing_of_ours_may_be_shared_among_callers(scripted: Scripted, tmp_path: Path) -> None:
    """mcp:transports: what a server calls public is not, since not every caller may read it."""
    public = {"resultType": "complete", "ttlMs": 5000, "cacheScope": "public"}
    others = {
        "resources/list": {"resources": [{"uri": "note:///a", "name": "a"}], **public},
        "resources/read": {"contents": [{"uri": "note:///a", "text": "x"}], **public},
    }

    async def work(client: Client) -> None:
        lists = (
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resources(),
            await client.list_resource_templates(),
        )
        assert {(each.cache_scope, each.ttl_ms) for each in lists} == {("private", 0)}
        read = await client.read_resource("toolscript:///notes/note:///a")
        assert (read.cache_scope, read.ttl_ms) == ("private", 5000)

    with gateway(tmp_path, notes=scripted(READ_FILE, others=others, discover="answer")) as url:
        talk(f"{url}/mcp", work, "auto")
