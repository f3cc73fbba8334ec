"""How soon a gateway of many servers is of use when some are dead and some hang.

    python -m benchmarks.start [--servers 100] [--dead 10] [--hanging 5]

All of them work once, so that there is a snapshot. Then the gateway is started
again with some that end at once and some that never answer. A tool of one of
the latter is asked for. The servers start with the gateway, not when they are needed.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from benchmarks import report
from benchmarks.gateways import at_once, configure, scripted, write

_SETTINGS = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "TOOLSCRIPT_START": "eager"}
_PATIENCE_S = 120.0


def main() -> None:
    """Measure, print, write."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="toolscript-start-") as name:
        folder = Path(name)
        _configure(folder, arguments.servers)
        wanted = arguments.dead + arguments.hanging - 1
        began = time.monotonic()
        with at_once(folder, None, **_SETTINGS) as started:
            first = _watched(started.url, began, wanted, arguments.servers)
        _doom(folder, arguments.dead, {"exit": 1})
        _doom(folder, arguments.dead + arguments.hanging, {"hang": True}, arguments.dead)
        began = time.monotonic()
        with at_once(folder, None, **_SETTINGS) as started:
            again = _watched(started.url, began, wanted, arguments.servers - wanted - 1)
    rows = [[key, str(first[key]), str(again[key])] for key in again]
    report.table(["seconds until", "first start, all well", "second start"], rows)
    meta = report.meta(**{key: getattr(arguments, key) for key in ("servers", "dead", "hanging")})
    report.write(arguments.json, {**meta, "first": first, "again": again})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.start", description=__doc__)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--dead", type=int, default=10)
    parser.add_argument("--hanging", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures as JSON")
    return parser.parse_args()


def _configure(folder: Path, number: int) -> None:
    _doom(folder, number, {})
    schema = {"type": "object"}
    configure(
        folder,
        {
            f"s{n:03}": scripted(
                fate=str(_fate(folder, n)),
                tools=[
                    {"name": f"{verb}_{n}", "description": f"{verb} {n}", "inputSchema": schema}
                    for verb in ("read", "write", "find", "copy", "delete")
                ],
            )
            for n in range(number)
        },
    )


def _doom(folder: Path, end: int, fate: dict[str, Any], start: int = 0) -> None:
    """From their next start on, that is what these servers do; the configuration is the same."""
    for n in range(start, end):
        write(_fate(folder, n), json.dumps(fate))


def _fate(folder: Path, n: int) -> Path:
    return folder / f"s{n:03}.fate"


def _watched(url: str, began: float, wanted: int, live: int) -> dict[str, float | str]:
    """Seconds since the beginning until each thing could be seen."""
    found: dict[str, float | str] = {"it has a socket": _since(began)}
    with httpx2.Client(base_url=url, timeout=60) as http:
        while (answer := _asked(http, wanted)) is None:
            time.sleep(0.02)
            _give_up(began, "no search is answered")
        found["a search is answered"] = _since(began)
        found["it finds"] = next((h["toolId"] for h in answer.json()["results"]), "nothing")
        while len(_ready(http)) < live:
            time.sleep(0.05)
            _give_up(began, f"{len(_ready(http))} servers are ready")
        found["the others are live"] = _since(began)
    return found


def _asked(http: httpx2.Client, wanted: int) -> httpx2.Response | None:
    answer = http.get("/search", params={"q": f"copy {wanted}"})
    return answer if answer.is_success else None


def _ready(http: httpx2.Client) -> list[str]:
    listed = http.get("/servers").raise_for_status().json()["servers"]
    return [each["name"] for each in listed if each["state"] == "ready" and not each["snapshot"]]


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)


def _give_up(began: float, seen: str) -> None:
    if time.monotonic() - began > _PATIENCE_S:
        raise SystemExit(f"not within {_PATIENCE_S:g} s: {seen}")


if __name__ == "__main__":
    main()
