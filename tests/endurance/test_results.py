"""Long results through every door: nothing is lost, too long for a model, or anybody else's."""

import json
import re
import string
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_process
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.endurance.effort import Effort
from tests.endurance.observed import observed, resident_mib
from tests.gateways import JSON, Started, configure, gateway
from tests.servers import sizes
from tests.support import FUZZY, until
from toolscript.config.access_tokens import TokenStore
from toolscript.text.image_size import image_size
from toolscript.text.token_estimate import BYTES_PER_TOKEN, image_tokens
from toolscript.types import EVERYTHING, RESULT_LIMIT

_MAX_SIZE = 2_000_000
"""Larger ones have too many pages to be read to the end."""
_GROWTH_MIB = 32
_HANDLE = re.compile(r"read_result with handle '([\w-]+)'")
_LEFT_OUT = re.compile(r"Left out: (\S+),")
_PAGE = re.compile(r"lines \d+ to (\d+) of (\d+):\n")


@pytest.fixture
def started(tmp_path: Path) -> Generator[Started]:
    server = {"command": sys.executable, "args": ["-S", "-E", sizes.__file__]}
    profiles = {"narrow": {"permissions": {"s__other": "ask"}}}
    configure(tmp_path, {"s": server})
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"profiles": profiles}), "utf-8")
    with gateway(tmp_path, **FUZZY) as started:
        headers = {**JSON, "Authorization": f"Bearer {started.key}"}
        listed = lambda: b"s__make" in started.ask("GET", "/tools", None, headers)[1]  # noqa: E731
        until(listed, "the server is ready")
        yield started


@dataclass
class Door:
    """A way to call tools by which a model gets results."""

    client: Any
    caller: str
    """The meta tool that calls the others; empty if they are listed by themselves."""

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool."""
        if self.caller:
            arguments = {"tool": f"s__{tool}", "arguments": arguments}
        result = await self.client.call_tool(self.caller or f"s__{tool}", arguments)
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    async def read_all(self, handle: str) -> str:
        """Returns a stored result, read page by page."""
        last, pieces = "0", list[str]()
        while True:
            asked = {"handle": handle, "lines": f"{int(last) + 1}-"}
            text = (await self.client.call_tool("read_result", asked)).content[0].text
            assert len(text) <= RESULT_LIMIT
            page = _PAGE.match(text)
            assert page is not None, text
            last, total = page.groups()
            pieces.append(text[page.end() :])
            if last == total:
                return "".join(pieces)


@asynccontextmanager
async def doors(url: str, folder: Path) -> AsyncGenerator[list[Door]]:
    """Opens every door that has handles."""
    environ = {
        "TOOLSCRIPT_DATA_DIR": str(folder),
        "TOOLSCRIPT_CONFIG": str(folder / "config.json"),
        **FUZZY,
    }
    command = ["-m", "toolscript", "mcp"]
    async with AsyncExitStack() as stack:
        bridge = StdioServerParameters(command=sys.executable, args=command, env=environ)
        places: list[tuple[Any, Any, str]] = [
            (f"{url}/mcp/search", "legacy", "read_tool"),
            (f"{url}/mcp/all", "legacy", ""),
            (f"{url}/mcp/search", "auto", "read_tool"),
            (f"{url}/mcp/all", "auto", ""),
            (stdio_client(bridge), "legacy", "read_tool"),
            (stdio_client(bridge), "auto", "read_tool"),
        ]
        found = list[Door]()
        for place, mode, caller in places:
            client = await stack.enter_async_context(Client(place, mode=mode))
            found.append(Door(client, caller))
        yield found


def cost(block: Any) -> int:
    """Returns the length of a block for a model, in characters."""
    if block["type"] == "image":
        return image_tokens(image_size(block["data"])) * BYTES_PER_TOKEN
    resource = block.get("resource", {})
    return len(block.get("text", resource.get("text", json.dumps(block))))


def sent(kind: str, size: int, seed: int) -> str:
    """Returns the digest of a content; in a process of its own, as ``/health`` is timed in this."""
    return sizes.digest_of(sizes.result_of(kind, size, seed)["content"])


def is_all(text: str, kind: str, size: int, seed: int) -> bool:
    """Whether the pages of a stored result together are what its server has sent."""
    result = sizes.result_of(kind, size, seed)
    said = "\n".join(block["text"] for block in result["content"] if "text" in block)
    if structured := result.get("structuredContent"):
        return text.startswith(f"{said}\n") and json.loads(text[len(said) :]) == structured
    return json.loads(text) == json.loads(said) if kind == "json" else text == said


async def check(door: Door, kind: str, size: int, seed: int) -> bool:
    """Whether a result was stored; it is within the limit, and all of it is had."""
    made = kind, size, seed
    got = await door.call("make", kind=kind, size=size, seed=seed)
    assert sum(map(cost, got["content"])) <= RESULT_LIMIT, made
    assert bool(got.get("isError")) == (kind == "error")
    texts = [block["text"] for block in got["content"] if "text" in block]
    handles = _HANDLE.findall(texts[0]) if texts else []
    if not handles:
        assert sizes.digest_of(got["content"]) == await to_process.run_sync(sent, *made), made
        return False
    [handle] = handles
    if "lines (such" in texts[0]:
        text = await door.read_all(handle)
        assert await to_process.run_sync(is_all, text, *made), made
    for name in _LEFT_OUT.findall(texts[0]):
        asked = {"handle": handle, "query": name}
        part = await door.client.call_tool("read_result", asked)
        [block] = part.model_dump(by_alias=True, mode="json", exclude_none=True)["content"]
        assert not part.is_error or "which no model can be shown" in block["text"], made
        assert cost(block) <= RESULT_LIMIT
    return True


def check_whole(started: Started, kind: str, size: int, seed: int, path: str) -> None:
    """Over plain HTTP a result comes as it is."""
    arguments: Any = {"kind": kind, "size": size, "seed": seed}
    if path == "/message":
        params = {"name": "s__make", "arguments": arguments}
        arguments = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    status, text, _ = started.ask("POST", path, json.dumps(arguments).encode())
    assert status == 200
    answer = json.loads(text)
    if path == "/message" and "too large here" in str(answer)[:1000]:
        return
    got = answer.get("result", answer)
    assert got["content"] == sizes.result_of(kind, size, seed)["content"]


def test_long_results_are_whole_and_within_the_limit(
    started: Started, tmp_path: Path, effort: Effort, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, times = effort.chance, effort.times(2_000, 16)
    most, stored = _MAX_SIZE if times > 100 else _MAX_SIZE // 8, 0

    async def work(times: int) -> None:
        nonlocal stored
        async with doors(started.url, tmp_path) as open_doors:
            for number in range(times):
                door = number % (len(open_doors) + 2)
                kind = sizes.KINDS[(number + number // len(sizes.KINDS)) % len(sizes.KINDS)]
                size = int(most ** chance.uniform(0.3, 1))
                if door < len(open_doors):
                    stored += await check(open_doors[door], kind, size, number)
                else:
                    path = ("/tools/s__make", "/message")[door - len(open_doors)]
                    whole = (started, kind, size, number, path)
                    await to_process.run_sync(check_whole, *whole)

    anyio.run(work, 8)  # what is imported and made once
    with observed(started) as seen:
        anyio.run(work, times)
    until(
        lambda: resident_mib(started.pid) < seen.before_mib + _GROWTH_MIB,
        "the memory is released, which happens twice a minute",
        70,
    )
    with capsys.disabled():
        left = resident_mib(started.pid)
        print(f"\n{times} results, {stored} stored: {seen}; {left:.0f} MiB afterwards")  # noqa: T201
    assert stored > times // 4
    assert not seen.unanswered, str(seen)


@dataclass
class Thief:
    """A caller who tries handles that are not its own."""

    client: Any
    name: str
    known: list[str] = field(default_factory=list[str])
    """The handles of others that it sends."""

    async def steal(self, handle: str) -> str:
        """Returns the answer to a request with a handle."""
        answer = await self.client.call_tool("read_result", {"handle": handle})
        return answer.model_dump_json()


async def make_result(client: Any, seed: int) -> str:
    """Has a session get a long result; returns its handle."""
    made = {"kind": "table", "size": 50_000, "seed": seed}
    answer = await client.call_tool("read_tool", {"tool": "s__make", "arguments": made})
    return _HANDLE.findall(answer.content[0].text)[0]


def test_h1_no_guess_and_no_replay_of_a_handle_is_answered(
    started: Started, tmp_path: Path, effort: Effort
) -> None:
    """Of other sessions, tokens and profiles, of an ended session and a revoked token."""
    chance = effort.chance
    [record] = tmp_path.glob("run/gateway-*.json")
    store = TokenStore(tmp_path, record.stem.removeprefix("gateway-"))
    (_, first), (_, second), (revoked, third) = (store.create(EVERYTHING) for _ in range(3))

    async def work() -> int:
        async with AsyncExitStack() as stack:

            @asynccontextmanager
            async def session(token: str, mode: Any, path: str = "/mcp") -> AsyncGenerator[Any]:
                headers = {"Authorization": f"Bearer {token}"}
                async with httpx2.AsyncClient(headers=headers, timeout=60) as sends:
                    at = streamable_http_client(f"{started.url}{path}", http_client=sends)
                    async with Client(at, mode=mode) as client:
                        yield client

            async def enter(token: str, mode: Any, path: str = "/mcp") -> Any:
                return await stack.enter_async_context(session(token, mode, path))

            older, newest = await enter(first, "legacy"), await enter(first, "auto")
            handles = [await make_result(older, seed) for seed in range(3)]
            of_token = [await make_result(newest, seed) for seed in range(3, 6)]
            async with session(first, "legacy") as ended:
                gone = [await make_result(ended, 6)]
            async with session(third, "auto") as lost:
                gone += [await make_result(lost, 7)]
            store.revoke(revoked.id)
            # A session of the newest protocol is its token: its own handles it may send.
            narrow = "/mcp/p/narrow"
            thieves = [
                Thief(await enter(first, "legacy"), "session", [*handles, *of_token]),
                Thief(await enter(second, "legacy"), "token", [*handles, *of_token]),
                Thief(await enter(second, "auto"), "newest token", [*handles, *of_token]),
                Thief(await enter(first, "legacy", narrow), "profile", [*handles, *of_token]),
                Thief(await enter(first, "auto", narrow), "newest profile", of_token),
                Thief(newest, "newest", handles),
                Thief(older, "older", of_token),
            ]
            answered = 0
            for _ in range(effort.times(10_000, 120)):
                thief = chance.choice(thieves)
                letters = "".join(chance.choices(string.ascii_lowercase + string.digits, k=12))
                near = chance.choice(thief.known)
                guess = [near[:-1] + chance.choice("abcdef"), near.upper(), f"x-{near}", letters]
                handle = chance.choice([*thief.known, *gone, *gone, *guess])
                if handle.rpartition("-")[2] not in {*handles, *of_token} or handle in thief.known:
                    answer = await thief.steal(handle)
                    assert "no result" in answer, (thief.name, handle, answer)
                    answered += 1
            for handle in handles:  # which are still their session's
                assert "cell" in await Thief(older, "owner").steal(handle)
            return answered

    assert anyio.run(work) > 20
