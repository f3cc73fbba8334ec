"""How many tokens a model needs for its tasks, and how often it finds the right tool at once.

    python -m benchmarks.model_side [--tasks 60] [--json FILE]

The tasks of ``tasks.toml`` are done over the demo's servers (``bash scripts/demo`` installs them),
each in a session of its own, once for each way in which a model can be given tools: all of them
listed, our exposures, FastMCP's search (where ``.peers`` is installed, see `benchmarks.quality`)
and the shape of mcpproxy's answers.

The model is scripted and knows what it was shown. It asks as a task's step says; if a tool is
shown that does it, it calls that, after having it described if a parameter that it needs was not
shown. Otherwise that was a wrong turn, and it asks again in other words. Calls are made, by real
servers; the files of each way are a copy of their own. Tokens are those of what a model reads and
writes: a quarter of the bytes. Results of the ways that are not ours are counted once, without the
structured content that repeats them.
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote
from urllib.request import Request, urlopen

import anyio
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.gateways import Started, gateway

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.model_side.peers import FastMcp
from toolscript.text.token_estimate import estimated_tokens

ROOT = Path(__file__).resolve().parents[2]
SERVERS = (ROOT / ".servers").resolve()
_PAGE = b"<html><body><h1>Gateways</h1>" + b"<p>One of many words about tools.</p>" * 40
_HITS = 5
_Json: TypeAlias = dict[str, Any]


class Step(NamedTuple):
    """Something that a model has to find a tool for."""

    ask: str
    again: str
    tools: Sequence[str]
    arguments: _Json | None

    def matching(self, shown: Sequence[str]) -> str | None:
        """Returns the first tool that does it among those that are shown."""
        return next((name for name in shown if name in self.tools), None)


@dataclass
class Count:
    """What a way of giving tools has cost so far."""

    tokens: dict[str, int] = field(default_factory=dict[str, int])
    found_at_first: int = 0
    wrong_turns: int = 0
    turns: int = 0
    failed: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    """The tools of the calls before which a person is asked."""

    def add(self, kind: str, *values: Any) -> None:
        """Counts what a model reads or writes."""
        written = [v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
        size = sum(estimated_tokens(text.encode()) for text in written)
        self.tokens[kind] = self.tokens.get(kind, 0) + size


class Shown(NamedTuple):
    """The answer of a search."""

    names: list[str]
    """The ids of tools."""
    lines: dict[str, str] | None = None
    """What is shown of each; None if that is its whole schema."""

    def has_all(self, name: str, arguments: _Json) -> bool:
        """Whether each parameter of a call is shown."""
        if self.lines is None:
            return True
        shown = self.lines[name]
        return all(re.search(rf"[(\s]{re.escape(key)}[,:)]", shown) for key in arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.model_side", description="What a model reads.")
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_json()
    given = parser.parse_args(arguments)
    if not (SERVERS / "servers.json").is_file():
        parser.error("the demo's servers are not installed; run bash scripts/demo")
    counts: dict[str, Count] = {}
    with _page() as page:
        for name, way in _ways().items():
            print(f"{name} …", file=sys.stderr, flush=True)
            with demo_gateway() as (started, workspace):
                counts[name] = anyio.run(_do_all, way, started, tasks(workspace, page, given))
    _print(counts, given.tasks)
    rows = {name: vars(count) for name, count in counts.items()}
    report.write(given.json, {"meta": report.meta(), "results": rows})
    return 0


def tasks(workspace: Path, page: str, given: argparse.Namespace) -> list[tuple[str, list[Step]]]:
    """Returns the goal and the steps of as many tasks as are asked for.

    Args:
        workspace: The folder of the files.
        page: The address of a web page.
        given: The arguments of the command.
    """
    text = (Path(__file__).parent / "tasks.toml").read_text("utf-8")
    text = text.replace("{workspace}", str(workspace)).replace("{page}", page)
    return [
        (
            task["goal"],
            [Step(s["ask"], s["again"], s["tools"], s.get("arguments")) for s in task["steps"]],
        )
        for task in tomllib.loads(text)["tasks"][: given.tasks]
    ]


@contextmanager
def _page() -> Generator[str]:
    """A web page on this machine; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 404)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(_PAGE if self.path == "/" else b"")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


@contextmanager
def demo_gateway(**environ: str) -> Generator[tuple[Started, Path]]:
    """A gateway over a copy of the demo's files, with more variables, and the files' folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("workspace", "data"):
            shutil.copytree(SERVERS / part, folder / part)
        text = (SERVERS / "servers.json").read_text("utf-8")
        for part in ("workspace", "data"):
            text = text.replace(f"{SERVERS}/{part}", f"{folder}/{part}")
        (folder / "config.json").write_text(text, "utf-8")
        with gateway(folder, TOOLSCRIPT_SEARCH_MODEL="bundled", **environ) as started:
            yield started, folder / "workspace"


class Way:
    """A way in which a model is given tools, in one session. This one lists all of them."""

    def __init__(self, client: Client, started: Started, count: Count) -> None:
        self.client, self.started, self.count = client, started, count
        self.listed: list[_Json] = []

    path = "/mcp/all"

    async def begin(self) -> None:
        """Lists the tools."""
        tools = (await self.client.list_tools()).tools
        entries = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]
        self.listed = [{key: e.get(key, "") for key in _READ} for e in entries if _serves(self, e)]
        self.count.add("list", self.listed)

    async def search(self, query: str) -> Shown | None:
        """Searches; None if there is nothing to search with, since everything is listed."""
        del query
        return None

    async def describe(self, name: str) -> None:
        """Has a tool described."""
        raise NotImplementedError

    async def call(self, name: str, arguments: _Json) -> None:
        """Calls a tool. Its result comes as the server has sent it, over HTTP."""
        self.count.add("calls", {"name": name, "arguments": arguments})
        result = await anyio.to_thread.run_sync(self._post, name, arguments)
        self.count.add("results", result.get("content", result))

    def _post(self, name: str, arguments: _Json) -> _Json:
        headers = {
            "Authorization": f"Bearer {self.started.key}",
            "Content-Type": "application/json",
        }
        url = f"{self.started.url}/tools/{quote(name)}"
        request = Request(url, json.dumps(arguments).encode(), headers)  # noqa: S310 - our gateway
        try:
            with urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
                return json.load(answer)
        except OSError as error:
            return {"content": str(error)}


_READ = ("name", "description", "inputSchema")
"""What a model reads of a tool that is listed."""


def _serves(way: Way, entry: _Json) -> bool:
    """Whether an entry is the servers' own, where the way has no tools of ours."""
    return type(way) is not Way or "__" in entry["name"]


class Search(Way):
    """Our exposure ``search``."""

    path = "/mcp/search"
    name = "search_tools"

    async def search(self, query: str) -> Shown | None:
        """See `Way`."""
        text = await self._said("searches", self.name, {"query": query})
        lines = {line.split(" ", 1)[0]: line for line in text.splitlines()[1:] if "(" in line}
        self._calls = {name: _CALL.findall(line)[0] for name, line in lines.items()}
        return Shown(list(lines), lines)

    async def describe(self, name: str) -> None:
        """See `Way`."""
        await self._said("descriptions", "describe_tools", {"tools": [name]})

    async def call(self, name: str, arguments: _Json) -> None:
        """See `Way`."""
        call = self._calls.get(name, "call_destructive_tool")
        self.count.asked += [name] if call == "call_destructive_tool" else []
        asked = {"tool": name, "arguments": arguments}
        self.count.add("calls", {"name": call, "arguments": asked})
        self.count.add("results", await self._answer(call, asked))

    async def _said(self, kind: str, name: str, arguments: _Json) -> str:
        self.count.add(kind, {"name": name, "arguments": arguments})
        [block] = (answer := await self._answer(name, arguments))["content"]
        self.count.add(kind, answer)
        return block["text"]

    async def _answer(self, name: str, arguments: _Json) -> _Json:
        result = await self.client.call_tool(name, arguments)
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return {key: value for key, value in dumped.items() if key in _PARTS}


_PARTS = {"content", "structuredContent"}
_CALL = re.compile(r"\[((?:read|call|call_destructive)_tool)\]")
"""Which of our tools calls one that is shown."""


class TwoPhase(Search):
    """Our exposure ``two-phase``: what is found is listed, and the list is read again."""

    path = "/mcp/two-phase"
    name = "tool_search"

    async def search(self, query: str) -> Shown | None:
        """See `Way`."""
        shown = await super().search(query)
        await self.begin()
        return None if shown is None else Shown(shown.names)

    async def call(self, name: str, arguments: _Json) -> None:
        """See `Way`."""
        self.count.add("calls", {"name": name, "arguments": arguments})
        self.count.add("results", await self._answer(name, arguments))


class Peer(Way):
    """FastMCP's search."""

    engine: FastMcp

    async def begin(self) -> None:
        """See `Way`."""
        self.count.add("list", self.engine.listed)

    async def search(self, query: str) -> Shown | None:
        """See `Way`."""
        answer = self.engine.search(query, _HITS)
        self.count.add("searches", {"name": "search_tools", "arguments": {"query": query}})
        self.count.add("searches", self.answer(query, answer))
        return Shown([row["name"] for row in answer])

    @staticmethod
    def answer(query: str, rows: list[_Json]) -> Any:
        """Returns what the model reads of an answer."""
        del query
        return rows

    async def call(self, name: str, arguments: _Json) -> None:
        """See `Way`."""
        self.count.add("calls", "call_tool")
        await super().call(name, arguments)


class McpProxy(Peer):
    """The shape of mcpproxy's answers, over the ranking of FastMCP's BM25."""

    @staticmethod
    def answer(query: str, rows: list[_Json]) -> Any:
        """See `Peer`."""
        tools = [
            {
                "name": row["name"].replace("__", ":", 1),
                "description": row["description"],
                "inputSchema": row["inputSchema"],
                "score": 1.234567,
                "server": row["name"].partition("__")[0],
                "call_with": "call_tool_read",
            }
            for row in rows
        ]
        return {"query": query, "tools": tools, "total": len(tools)}


def _ways() -> dict[str, type[Way]]:
    ways: dict[str, type[Way]] = {
        "all tools listed": Way,
        "toolscript, search": Search,
        "toolscript, two-phase": TwoPhase,
    }
    if FastMcp.is_installed():
        ways |= {"FastMCP's search": Peer, "mcpproxy's shape": McpProxy}
    return ways


async def _do_all(
    way: type[Way], started: Started, chosen: Sequence[tuple[str, list[Step]]]
) -> Count:
    count = Count()
    headers = {"Authorization": f"Bearer {started.key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as sends:
        if issubclass(way, Peer):
            async with Client(_door(started, Way, sends), mode="legacy") as client:
                tools = (await client.list_tools()).tools
            entries = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]
            way.engine = FastMcp([entry for entry in entries if "__" in entry["name"]])
        for goal, steps in chosen:
            async with Client(_door(started, way, sends), mode="legacy") as client:
                done = [await _do(way(client, started, count), steps)]
            count.found_at_first += all(done)
            if not all(done):
                count.failed.append(goal)
    return count


def _door(started: Started, way: type[Way], sends: httpx2.AsyncClient) -> Any:
    return streamable_http_client(started.url + way.path, http_client=sends)


async def _do(way: Way, steps: Sequence[Step]) -> bool:
    """Does a task; returns whether the first search of each step has shown the right tool."""
    await way.begin()
    at_first = True
    for step in steps:
        for query in (step.ask, step.again):
            way.count.turns += 1
            shown = await way.search(query)
            name = step.tools[0] if shown is None else step.matching(shown.names)
            if name is not None:
                break
            at_first = False
            way.count.wrong_turns += 1
        else:
            continue
        if step.arguments is not None:
            if shown is not None and not shown.has_all(name, step.arguments):
                way.count.turns += 1
                await way.describe(name)
            way.count.turns += 1
            await way.call(name, step.arguments)
    return at_first


def _print(counts: dict[str, Count], number: int) -> None:
    kinds = ("list", "searches", "descriptions", "calls", "results")
    header = ["", *kinds, "all", "of all listed", "at first", "wrong turns"]
    totals = {name: sum(count.tokens.values()) for name, count in counts.items()}
    everything = totals["all tools listed"]
    rows = [
        [
            name,
            *(f"{count.tokens.get(kind, 0):,}" for kind in kinds),
            f"{totals[name]:,}",
            f"{totals[name] / everything:.1%}",
            f"{count.found_at_first} of {number}",
            str(count.wrong_turns),
        ]
        for name, count in counts.items()
    ]
    report.table(header, rows)
    for name, count in counts.items():
        once = totals[name] - count.tokens["list"] * (number - 1) // number
        print(f"\n{name}: {count.turns} turns")
        if count.asked:
            servers = {tool.partition("__")[0] for tool in count.asked}
            print(f"a person is asked about {len(count.asked)} calls; in one session, if each tool")
            print(
                f"is allowed for it, {len(set(count.asked))} times, if each server, {len(servers)}"
            )
        if name != "toolscript, two-phase":
            print(f"in one session of {number} tasks, the list read once: {once:,} tokens")
        if count.failed:
            print(f"not at first: {'; '.join(count.failed)}")


if __name__ == "__main__":
    sys.exit(main())
