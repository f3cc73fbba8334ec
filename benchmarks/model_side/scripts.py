"""How many tokens and calls a model needs for a task with a script, and with a chain of calls.

    python -m benchmarks.model_side.scripts [--json FILE]

The tasks of `script_tasks` are done over the demo's servers (``bash scripts/demo`` installs them),
twice, in copies of the files: as a script by ``run_script``, and as the calls that the same script
makes, one by one, by a model that reads each result. Tokens are those of the script or the calls,
and of the results: a quarter of the bytes. Searches, the list of tools and a final answer are the
same in both ways, and not counted.
"""

import ast
import asyncio
import inspect
import json
import random
import sqlite3
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from benchmarks import report
from benchmarks.arguments import Parser
from benchmarks.model_side.__main__ import demo_gateway
from benchmarks.model_side.script_tasks import TASKS, script_of
from toolscript.text.token_estimate import estimated_tokens

_CITIES, _ITEMS = ("Rome", "Oslo", "Lima", "Kyoto"), ("lamp", "clock", "teapot", "chair", "desk")


class Cost(NamedTuple):
    """The cost of one task in one way."""

    tokens: int
    calls: int
    failed: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; the exit code."""
    parser = Parser(prog="python -m benchmarks.model_side.scripts", description="Scripts or calls.")
    parser.add_json()
    given = parser.parse_args(arguments)
    costs: dict[str, dict[str, Cost]] = {}
    for way in ("chain", "script"):
        with demo_gateway(TOOLSCRIPT_SCRIPTS="1") as (started, workspace):
            fill(workspace)
            costs[way] = asyncio.run(_do_all(way, started.url, started.key, str(workspace)))
    chain, script = costs["chain"], costs["script"]
    rows = [
        [goal, str(chain[goal].calls), f"{chain[goal].tokens:,}", f"{script[goal].tokens:,}"]
        for goal in TASKS
    ]
    report.table(["Task", "Calls", "Tokens, chain", "Tokens, script"], rows)
    total = {way: sum(cost.tokens for cost in each.values()) for way, each in costs.items()}
    turns = sum(cost.calls for cost in chain.values())
    less = sum(script[goal].tokens < chain[goal].tokens for goal in TASKS)
    failed = [goal for each in costs.values() for goal, cost in each.items() if cost.failed]
    print(f"\n{len(TASKS)} tasks: {total['chain']:,} tokens in {turns} calls as chains, ", end="")
    print(f"{total['script']:,} tokens in {len(TASKS)} calls as scripts; ", end="")
    print(f"the script is cheaper in {less} tasks. Failed: {failed or 'none'}")
    results = {way: {g: c._asdict() for g, c in each.items()} for way, each in costs.items()}
    report.write(given.json, {"meta": report.meta(), "results": results})
    return 0


def fill(workspace: Path) -> None:
    """Writes the files and rows of the tasks: 20 logs, 200 people and 200 orders."""
    source = random.Random(7)  # noqa: S311 - no secret
    (workspace / "logs").mkdir()
    for number in range(20):
        kinds = source.choices(("INFO", "DEBUG", "WARNING", "ERROR"), (6, 3, 2, 1), k=40)
        words = source.choices(("disk is full", "user has logged in", "request took 31 ms"), k=40)
        lines = [f"2026-11-{number + 1:02} {k} {w}" for k, w in zip(kinds, words, strict=True)]
        (workspace / "logs" / f"log-{number:02}.txt").write_text("\n".join(lines), "utf-8")
    people = [
        {
            "name": f"Person {n}",
            "age": 20 + n % 50,
            "city": source.choice(_CITIES),
            "mail": f"p{n}@example.org",
        }
        for n in range(200)
    ]
    (workspace / "people.json").write_text(json.dumps(people), "utf-8")
    with sqlite3.connect(workspace.parent / "data" / "shop.db") as shop:
        orders = [(f"Person {n % 60}", source.choice(_ITEMS), 10 + n % 37) for n in range(200)]
        shop.executemany("INSERT INTO orders (customer, item, amount) VALUES (?, ?, ?)", orders)


async def _do_all(way: str, url: str, key: str, workspace: str) -> dict[str, Cost]:
    headers = {"Authorization": f"Bearer {key}"}
    costs: dict[str, Cost] = {}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as sends:
        for goal in TASKS:
            door = streamable_http_client(f"{url}/mcp/search", http_client=sends)
            async with Client(door, mode="legacy") as client:
                meter = Meter(client)
                script = script_of(goal, workspace)
                if way == "script":
                    await meter.call("run_script", {"script": script})
                else:
                    await _do_chain(script, meter)
            costs[goal] = Cost(meter.tokens, meter.calls, meter.failed)
    return costs


async def _do_chain(script: str, meter: "Meter") -> None:
    """Makes the calls of a script as a model that computes in its head."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(script, "script", "exec", flags=flags)
    found = eval(code, {"tools": _Tools(meter)})  # noqa: S307 - a script of ours
    if inspect.iscoroutine(found):
        await found


class Meter:
    """Calls tools, and counts what a model writes and reads."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.tokens = self.calls = 0
        self.failed = False

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Calls one of our tools; returns the value that a script would get."""
        result = await self.client.call_tool(name, arguments)
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        read = {key: dumped[key] for key in ("content", "structuredContent") if key in dumped}
        self.tokens += estimated_tokens(json.dumps({"name": name, "arguments": arguments}).encode())
        self.tokens += estimated_tokens(json.dumps(read).encode())
        self.calls += 1
        self.failed = self.failed or bool(result.is_error)
        if result.is_error:
            print(name, dumped["content"], file=sys.stderr)
        if "structuredContent" in read:
            return read["structuredContent"]
        return "\n".join(block.get("text", "") for block in read["content"])


class _Tools:
    """Looks like a script's ``tools``."""

    def __init__(self, meter: Meter, server: str = "") -> None:
        self._meter, self._server = meter, server

    def __getattr__(self, name: str) -> Any:
        if not self._server:
            return _Tools(self._meter, name)
        return partial(self._call, f"{self._server}__{name}")

    async def _call(self, tool: str, **given: Any) -> Any:
        value = await self._meter.call("call_destructive_tool", {"tool": tool, "arguments": given})
        if self._server == "filesystem" and isinstance(value, str):
            return {"content": value}  # the texts repeat the structured content, and it is left out
        if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
            try:
                return json.loads(value)
            except ValueError:
                return value
        return value


if __name__ == "__main__":
    sys.exit(main())
