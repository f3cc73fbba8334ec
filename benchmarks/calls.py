"""What the gateway adds to a call of a tool, and whether any of many at once is lost or mixed up.

    python -m benchmarks.calls --config .servers/servers.json

The same stdio server is called directly, over ``POST /tools`` and over ``/mcp``, in turns. Then
``--servers`` copies of it, behind a gateway of their own, get ``--concurrent`` calls at once.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from benchmarks import report
from benchmarks.gateways import configure, gateway

_Call: TypeAlias = Callable[[str], Awaitable[str]]


def main() -> None:
    """Measure, print the tables, and write the figures where that was asked for."""
    arguments = _arguments()
    entry = json.loads(arguments.config.read_text("utf-8"))["mcpServers"][arguments.server]
    with _gateway({arguments.server: entry}) as url:
        figures = anyio.run(_measure, url, arguments, entry)
    with _gateway({f"copy{n}": entry for n in range(arguments.servers)}) as url:
        figures["concurrent"] = anyio.run(_flood, url, arguments)
    _print(figures)
    report.write(arguments.output, {**report.meta(tool=arguments.tool), **figures})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="a file with mcpServers")
    parser.add_argument("--server", default="everything")
    parser.add_argument("--tool", default="echo", help="one that says what it was given")
    parser.add_argument("--argument", default="message", help="the name of its parameter")
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--concurrent", type=int, default=200)
    parser.add_argument("--output", type=Path, help="also write the figures as JSON")
    return parser.parse_args()


@contextmanager
def _gateway(servers: dict[str, Any]) -> Generator[str]:
    """A gateway over these servers with a data directory of its own; its URL."""
    with tempfile.TemporaryDirectory() as name:
        configure(Path(name), servers)
        with gateway(Path(name)) as started:
            yield started.url


async def _measure(
    url: str, arguments: argparse.Namespace, entry: dict[str, Any]
) -> dict[str, Any]:
    name, parameter = arguments.tool, arguments.argument
    exposed = f"{arguments.server}__{name}"
    direct = StdioServerParameters(
        command=entry["command"], args=entry.get("args", []), env=entry.get("env")
    )
    async with (
        Client(stdio_client(direct), mode="legacy") as alone,
        Client(f"{url}/mcp/all", mode="legacy") as session,
        Client(f"{url}/mcp/all") as newest,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        ways: dict[str, _Call] = {
            "direct, stdio": _client(alone, name, parameter),
            "POST /tools/{id}": _posted(http, f"{url}/tools/{exposed}", parameter),
            "/mcp, session": _client(session, exposed, parameter),
            "/mcp, 2026-07-28": _client(newest, exposed, parameter),
        }
        return {"calls": await _in_turns(ways, arguments.repetitions)}


async def _in_turns(ways: dict[str, _Call], repetitions: int) -> dict[str, dict[str, float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repetitions + 10):
        for name, call in ways.items():
            start = time.perf_counter()
            said = await call(f"turn {turn}")
            times[name].append((time.perf_counter() - start) * 1000)
            assert f"turn {turn}" in said  # noqa: S101 - a figure for a wrong answer is none
    return {
        name: {
            "median_ms": round(statistics.median(values[10:]), 2),
            "p95_ms": round(statistics.quantiles(values[10:], n=20)[-1], 2),
        }
        for name, values in times.items()
    }


def _client(client: Client, name: str, parameter: str) -> _Call:
    async def call(text: str) -> str:
        [block] = (await client.call_tool(name, {parameter: text})).content
        assert isinstance(block, types.TextContent)  # noqa: S101 - as it says of itself
        return block.text

    return call


def _posted(http: httpx2.AsyncClient, url: str, parameter: str) -> _Call:
    async def call(text: str) -> str:
        response = await http.post(url, json={parameter: text})
        return response.json()["content"][0]["text"]

    return call


async def _flood(url: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Every call at once, over all copies: how many came back, and how many as asked."""
    answers: dict[int, str] = {}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(timeout=120, limits=limits) as http:

        async def call(n: int) -> None:
            address = f"{url}/tools/copy{n % arguments.servers}__{arguments.tool}"
            answers[n] = await _posted(http, address, arguments.argument)(f"<{n}>")

        start = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for n in range(arguments.concurrent):
                tasks.start_soon(call, n)
        seconds = time.perf_counter() - start
    return {
        "servers": arguments.servers,
        "sent": arguments.concurrent,
        "answered": len(answers),
        "as asked": sum(f"<{n}>" in text for n, text in answers.items()),
        "seconds": round(seconds, 2),
    }


def _print(figures: dict[str, Any]) -> None:
    base = figures["calls"]["direct, stdio"]["median_ms"]
    rows = [
        [name, f"{r['median_ms']:.2f}", f"{r['p95_ms']:.2f}", f"{r['median_ms'] - base:+.2f}"]
        for name, r in figures["calls"].items()
    ]
    report.table(["call", "median ms", "95 % ms", "added ms"], rows)
    print()
    many = figures["concurrent"]
    report.table(list(many), [[str(value) for value in many.values()]])


if __name__ == "__main__":
    main()
