"""Stored results over MCP: whose they are, how long they last, and how they are read."""

import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support import FUZZY, PATIENCE_S, WRITES, Cli, Scripted, create_token, tool, until
from tests.surfaces.mcp.test_mcp import MODES, Mode

from toolscript.surfaces.mcp.result_reading import Lines

ROWS = [{"id": number, "name": f"row {number}"} for number in range(1000)]
PIXEL = "iVBORw0KGgo" + "A" * 4000
LONG: dict[str, Any] = {"content": [{"type": "text", "text": json.dumps(ROWS)}]}
MIXED: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "t" * 25_000},
        *[{"type": "image", "data": PIXEL, "mimeType": "image/png"}] * 4,
    ]
}


class Stored:
    """A gateway, and the handle of a result that one of its sessions has got."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.url = cli.start_gateway()
        self.tokens = [create_token(cli)["token"] for _ in range(2)]

    @asynccontextmanager
    async def client(self, mode: Mode, path: str = "/mcp", token: int = 0) -> AsyncGenerator[Any]:
        headers = {"Authorization": f"Bearer {self.tokens[token]}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as sends:
            server = streamable_http_client(self.url + path, http_client=sends)
            async with Client(server, mode=mode) as client:
                yield client

    @property
    def files(self) -> int:
        """How many results the gateway has open."""
        folder = str(self.cli.home.resolve())
        descriptors = Path(f"/proc/{self.cli.record()['pid']}/fd").iterdir()
        targets = [os.path.realpath(path) for path in descriptors]
        return sum(each.startswith(folder) and "/results/" in each for each in targets)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stored]:
    home = tmp_path_factory.mktemp("stored")
    cli = Cli(home, FUZZY)
    results = {"rows": LONG, "mixed": MIXED}
    entry = Scripted(home)(
        *(tool(name) | WRITES for name in ("rows", "mixed", "huge", "take")), results=results
    )
    rules = {"profiles": {"narrow": {"permissions": {"s__huge": "ask"}}}}
    cli.configure(s={**entry, "resultLimit": {"huge": 900_000, "take": 60_000}})
    config = json.loads((home / ".toolscript.json").read_text("utf-8"))
    (home / ".toolscript.json").write_text(json.dumps(config | rules), "utf-8")
    yield Stored(cli)
    cli("gateway", "stop")


async def call(client: Any, name: str, **arguments: Any) -> Any:
    return await client.call_tool("call_destructive_tool", {"tool": name, "arguments": arguments})


async def handle_of(client: Any, name: str = "s__rows") -> str:
    result = await call(client, name)
    [handle] = re.findall(r"read_result with handle '([\w-]+)'", result.content[0].text)
    return handle


@pytest.mark.parametrize("mode", MODES)
def test_a_stored_result_is_read_part_by_part(stored: Stored, mode: Mode) -> None:
    async def work() -> str:
        async with stored.client(mode) as client:
            handle = await handle_of(client, "s__mixed")

            async def read(**asked: Any) -> Any:
                return await client.call_tool("read_result", {"handle": handle, **asked})

            [first] = (await read(page=2)).content  # a parameter that models invent
            assert len(first.text) <= 24_000
            assert (await read(lines="2-2")).content[0].text.startswith("lines 2 to 2")
            [image] = (await read(query="content[4]")).content
            assert (image.data, image.mime_type) == (PIXEL, "image/png")
            for wrong in ({"lines": "0"}, {"query": "content[9]"}, {"lines": "1", "grep": "t"}):
                assert (await read(**wrong)).is_error
            return handle

    handle = anyio.run(work)
    for log in stored.cli.home.rglob("*.log"):
        assert handle not in log.read_text("utf-8", errors="replace")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/p/narrow"])
@pytest.mark.anyio
async def test_h1_a_handle_is_the_sessions_and_its_grants_alone(
    stored: Stored, mode: Mode, path: str
) -> None:
    """Whoever else sends it gets the answer for a handle that never was."""
    async with stored.client(mode) as client:
        handle = await handle_of(client)
        others = [(path, 1)] if path == "/mcp" else [(path, 0)]
        for other_path, token in others:
            async with stored.client(mode, other_path, token) as other:
                answers = list[str]()
                for given in (handle, "abcdefghjkmn"):
                    read = await other.call_tool("read_result", {"handle": given})
                    answers.append(str(read).replace(given, "HANDLE"))
                assert answers[0] == answers[1]
                assert "no result 'HANDLE' is kept here" in answers[0]
        assert not (await client.call_tool("read_result", {"handle": handle})).is_error


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.anyio
async def test_a_sessions_results_end_with_it(stored: Stored) -> None:
    async with stored.client("auto") as client:  # its results are the token's
        await handle_of(client)
        async with stored.client("legacy") as session:
            for _ in range(3):
                await handle_of(session)
            most = stored.files
        await to_thread.run_sync(until, lambda: stored.files <= most - 3, "they are dropped")
        assert stored.files


def test_clients_are_told_of_results_that_are_longer_than_they_expect(stored: Stored) -> None:
    async def work() -> dict[str, Any]:
        listed = dict[str, Any]()
        for path in ("/mcp/search", "/mcp/all"):
            async with stored.client("legacy", path) as client:
                listed |= {each.name: each.meta or {} for each in (await client.list_tools()).tools}
        return listed

    sizes = {
        name: meta.get("anthropic/maxResultSizeChars") for name, meta in anyio.run(work).items()
    }
    assert {name for name, size in sizes.items() if size == 500_000} == {
        *("s__huge", "read_tool", "call_tool", "call_destructive_tool", "read_result")
    }
    assert sizes["s__take"] == 60_000
    assert {sizes["s__rows"], sizes["search_tools"]} == {None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a",
        "a\n" * 9,
        "x" * 2000 + "\n",
        "x" * 2001 + "\n\n" + "y" * 9999,
        ("é\U0001f600\ud800\n" * 700 + "z" * 4001) * 3,
        "\n" * 1_000_001 + "w" * 6000,
    ],
    ids=range(8),
)
def test_b4_lines_are_numbered_without_a_step_for_each(text: str) -> None:
    """A long line counts as several; a text of line ends holds up nobody's results."""
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    Lines("")  # which loads what it needs
    sys.setprofile(count)
    try:
        lines = Lines(text)
    finally:
        sys.setprofile(None)
    pieces = [*re.finditer(r"[^\n]{0,1999}.", text, re.DOTALL)]
    expected = [(piece.start(), piece.end()) for piece in pieces] or [(0, 0)]
    assert [lines.place(number + 1) for number in range(len(lines))] == expected
    assert steps < 1000
