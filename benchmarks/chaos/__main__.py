"""Lets clients search and call while the servers are killed, hung, flooding and changed at random.

    python -m benchmarks.chaos --minutes 5 [--idle 2] [--projects]

A real gateway, over servers that are real processes. There are four quarters; after
each every server is started anew, and what the gateway takes then is noted: what it takes
after the first two is compared with what it takes after the last two.
The exit code is 1 when a check has failed. With ``--idle`` a server is started
when it is needed and stopped after so many seconds without a request, so that
none runs in the end; with ``--projects`` each runs once for each of three
folders, and a call has to reach the one of its client's. Linux only.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2

from benchmarks import report
from benchmarks.chaos.clients import Tally, use
from benchmarks.chaos.observed import Figures, figures, lag, settled
from benchmarks.chaos.servers import Servers, living
from benchmarks.gateways import Started, gateway

_SETTINGS = {
    "TOOLSCRIPT_SEARCH_MODEL": "bundled",
    "TOOLSCRIPT_CALL_TIMEOUT": "5",
    "TOOLSCRIPT_PING_INTERVAL": "3",
    "TOOLSCRIPT_CONNECT_TIMEOUT": "10",
}
_EAGER = {"TOOLSCRIPT_START": "eager", "TOOLSCRIPT_IDLE_TIMEOUT": "0"}
_KINDS = ("http", "http", "session", "newest")
_RECOVERY_S = 60.0
_QUARTERS = 4
_MORE_MIB = 16.0
"""So much more memory after the second half than after the first is no growth: caches fill."""
_MORE_DESCRIPTORS = 5


def main() -> int:
    """Run, print, write; 1 if a check failed."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="toolscript-chaos-") as name:
        folder = Path(name)
        chance = random.Random(arguments.seed)  # noqa: S311 - it only has to be the same again
        servers = Servers(folder, arguments.servers, arguments.projects, chance)
        lazy = {"TOOLSCRIPT_START": "lazy", "TOOLSCRIPT_IDLE_TIMEOUT": str(arguments.idle)}
        settings = _SETTINGS | (lazy if arguments.idle else _EAGER)
        with _control() as control:
            with gateway(folder, **settings) as started:
                found = anyio.run(_run, started, servers, arguments)
            control.stdin.close() if control.stdin else None
            found["control"] = json.loads(control.stdout.read()) if control.stdout else {}
        found["left"] = len(living(folder))
    found["failed"] = failed_checks(found)
    _print(found)
    report.write(arguments.json, {**report.meta(seed=arguments.seed), **found})
    return bool(found["failed"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--idle", type=float, default=0.0, help="seconds; 0: servers run always")
    parser.add_argument("--projects", action="store_true", help="three of each server")
    parser.add_argument("--seed", type=int, default=0, help="what is done depends on it")
    parser.add_argument("--json", type=Path, help="also write the figures as JSON")
    return parser.parse_args()


@contextmanager
def _control() -> Generator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "benchmarks.chaos.control"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def _run(started: Started, servers: Servers, arguments: argparse.Namespace) -> dict[str, Any]:
    tally = Tally()
    calm: list[Figures] = []
    missing: list[str] = []
    async with httpx2.AsyncClient(base_url=started.url, timeout=30) as http:
        missing += await settled(http, servers.number, _RECOVERY_S)
        await http.get("/metrics")
        for _ in range(_QUARTERS):
            await _quarter(started, servers, tally, arguments)
            servers.recover()
            # The edit is noticed a moment later; until then the old ones are what is ready.
            await anyio.sleep(1)
            missing += await settled(http, servers.number, _RECOVERY_S)
            await anyio.sleep(2 * arguments.idle)
            calm.append(await figures(started, servers.folder))
        loop = lag((await http.get("/metrics")).text)
    return {
        "deeds": dict(servers.deeds),
        "hit": servers.hit,
        "asked": dict(tally.counts),
        "resting": bool(arguments.idle),
        "wrong": tally.wrong,
        "missing": missing,
        "calm": [each.as_json() for each in calm],
        "loop": loop,
    }


async def _quarter(
    started: Started, servers: Servers, tally: Tally, arguments: argparse.Namespace
) -> None:
    waiting = arguments.clients
    everybody = anyio.Event()

    def ready() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            everybody.set()

    async with anyio.create_task_group() as tasks:
        for n in range(arguments.clients):
            kind = _KINDS[n % len(_KINDS)]
            tasks.start_soon(partial(use, started, kind, servers, tally, ready))
        await everybody.wait()
        tasks.start_soon(servers.suffer)
        await anyio.sleep(arguments.minutes * 60 / _QUARTERS)
        tasks.cancel_scope.cancel()


def failed_checks(found: dict[str, Any]) -> list[str]:
    """What is not as it should be, a line each."""
    calm = found["calm"]
    before, after = _least(calm[: _QUARTERS // 2]), _least(calm[_QUARTERS // 2 :])
    grown = {key: after[key] - before[key] for key in before}
    processes = calm[-1]["processes"]
    checks = {
        "answers: some were wrong, or none": not found["wrong"],
        "answers: nothing was asked": found["asked"].get("searches")
        and found["asked"].get("calls answered"),
        "servers: some did not come back": not found["missing"],
        "processes: more than servers": processes <= calm[0]["processes"],
        "processes: idle ones run": not (found["resting"] and processes),
        "processes: some outlived the gateway": not found["left"],
        "descriptors: more and more": grown["descriptors"] <= _MORE_DESCRIPTORS,
        "memory: more and more": grown["memory_mib"] <= _MORE_MIB,
        "event loop: blocked": not found["loop"]["blocked"],
    }
    return [what for what, well in checks.items() if not well]


def _least(half: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The least of each figure in a half: what grows is there after each of its quarters.

    A large message that is under way leaves a hole in the heap for a while, of 8 MiB and more.
    """
    return {key: min(quarter[key] for quarter in half) for key in half[0]}


def _print(found: dict[str, Any]) -> None:
    for title in ("deeds", "asked"):
        report.table([title, "number"], [[k, str(n)] for k, n in sorted(found[title].items())])
        print()
    rows = [[key, *(str(half[key]) for half in found["calm"])] for key in found["calm"][0]]
    quarters = [f"after quarter {number + 1}" for number in range(_QUARTERS)]
    report.table(["when it is calm", *quarters], rows)
    loop, control = found["loop"], found["control"]
    print(
        f"\nThe event loop was late by more than 100 ms {loop['late']} times of {loop['looks']}, "
        f"{loop['blocked']} times while it was computing; that of an idle process beside it "
        f"{control['late']} times of {control['looks']}.\n"
    )
    for line in (*found["wrong"], *(f"not ready again: {name}" for name in found["missing"])):
        print(f"  {line}")
    print("failed: " + ", ".join(found["failed"]) if found["failed"] else "all is well")


if __name__ == "__main__":
    sys.exit(main())
