"""How soon a change is found: tools that a server tells of, a server that is back, an edit.

    python -m benchmarks.live [--tools 500] [--repetitions 10] [--json FILE]

A gateway over a server of ``--tools`` tools and one that changes. What is timed is from the
change until a search finds the new tool by meaning, and counted how many tools were embedded for
it. A server that went away is timed from its new start, which comes after a pause.
"""

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from benchmarks import report
from benchmarks.gateways import configure, gateway, scripted, write

_PATIENCE_S = 60.0
_POLL_S = 0.01
_NAMES = ("fetch_weather", "bake_bread", "tune_piano", "rent_bicycle", "translate_letter")


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    with (
        tempfile.TemporaryDirectory(prefix="toolscript-live-") as name,
        _bench(Path(name), arguments.tools) as bench,
    ):
        found = {what: _repeated(bench, make, arguments) for what, make in _CHANGES.items()}
    rows = [
        [what, *(f"{each[key]:.2f}" for key in ("median_s", "most_s")), str(each["embedded"])]
        for what, each in found.items()
    ]
    report.table(["a change is found", "median s", "most s", "tools embedded for it"], rows)
    report.write(arguments.json, {**report.meta(tools=arguments.tools), "changes": found})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.live", description=__doc__)
    parser.add_argument("--tools", type=int, default=500, help="those that do not change")
    parser.add_argument("--repetitions", type=int, default=5, help="each kill is waited for longer")
    parser.add_argument("--json", type=Path, help="also write the figures as JSON")
    return parser.parse_args()


@dataclass
class _Bench:
    """A running gateway, and the files that decide what its servers have."""

    folder: Path
    http: httpx2.Client
    servers: dict[str, Any]

    @property
    def tools(self) -> Path:
        """What the server that changes has."""
        return self.folder / "tools.json"

    @property
    def starts(self) -> Path:
        """A line for each of its starts."""
        return self.folder / "starts"

    def embedded(self) -> int:
        """How many tools were embedded so far."""
        return self.http.get("/search/stats").raise_for_status().json()["documentsEmbedded"]

    def until_found(self, name: str) -> float:
        """Wait for a tool to be found by meaning; the time."""
        end = time.monotonic() + _PATIENCE_S
        parameters = {"q": f"please {name.replace('_', ' ')}", "limit": 1}
        while time.monotonic() < end:
            hits = self.http.get("/search", params=parameters).raise_for_status().json()["results"]
            if hits and hits[0]["toolName"] == name and hits[0]["signals"].get("semantic"):
                return time.time()
            time.sleep(_POLL_S)
        raise SystemExit(f"{name} was not found within {_PATIENCE_S:g} s")


@contextmanager
def _bench(folder: Path, count: int) -> Generator[_Bench]:
    still = [_tool(f"file_number_{n}") for n in range(count)]
    write(folder / "still.json", json.dumps(still))
    servers = {
        "still": scripted(tools_file=str(folder / "still.json")),
        "moving": scripted(tools_file=str(folder / "tools.json"), starts=str(folder / "starts")),
    }
    write(folder / "tools.json", json.dumps([_tool("wait_here")]))
    configure(folder, servers)
    with (
        gateway(folder, TOOLSCRIPT_SEARCH_MODEL="bundled") as started,
        httpx2.Client(base_url=started.url, timeout=60) as http,
    ):
        yield _Bench(folder, http, servers)


def _tool(name: str) -> dict[str, Any]:
    told = f"{name.replace('_', ' ').capitalize()} for the user."
    return {"name": name, "description": told, "inputSchema": {"type": "object"}}


def _told(bench: _Bench, name: str) -> float:
    """The server says ``list_changed``."""
    _add(bench, name)
    return time.time()


def _edited(bench: _Bench, name: str) -> float:
    """The configuration gets one server more."""
    bench.servers[f"added-{name.replace('_', '-')}"] = scripted(tools=[_tool(name)])
    configure(bench.folder, bench.servers)
    return time.time()


def _returned(bench: _Bench, name: str) -> float:
    """The server dies, and has a tool more when it is back."""
    *_, last = starts = bench.starts.read_text("utf-8").split()
    os.kill(int(last.split(":")[0]), signal.SIGSTOP)  # so that it cannot tell
    _add(bench, name)
    os.kill(int(last.split(":")[0]), signal.SIGKILL)
    end = time.monotonic() + _PATIENCE_S
    while len(bench.starts.read_text("utf-8").split()) == len(starts):
        if time.monotonic() > end:
            raise SystemExit("the server was not started again")
        time.sleep(_POLL_S)
    return bench.starts.stat().st_mtime


def _add(bench: _Bench, name: str) -> None:
    write(bench.tools, json.dumps([*json.loads(bench.tools.read_text("utf-8")), _tool(name)]))


_CHANGES: dict[str, Callable[[_Bench, str], float]] = {
    "a server tells of a tool": _told,
    "a server is added to the configuration": _edited,
    "a server is back, with a tool more": _returned,
}


def _repeated(
    bench: _Bench, make: Callable[[_Bench, str], float], arguments: argparse.Namespace
) -> dict[str, Any]:
    before, took = bench.embedded(), list[float]()
    for n in range(arguments.repetitions):
        name = f"{_NAMES[n % len(_NAMES)]}_{make.__name__.strip('_')}_{n}"
        began = make(bench, name)
        took.append(bench.until_found(name) - began)
    embedded = (bench.embedded() - before) / arguments.repetitions
    return {"median_s": statistics.median(took), "most_s": max(took), "embedded": embedded}


if __name__ == "__main__":
    main()
