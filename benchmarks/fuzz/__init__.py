"""Sends made-up requests through every door of a gateway, and looks for faults.

    python -m benchmarks.fuzz [--cases 10000] [--door NAME] [--seed 18] [--json]

``http`` makes requests from the OpenAPI document (schemathesis), those that fit it and those that
do not. ``page`` asks for screens and sends forms. The others send JSON-RPC in which anything may
be anything (hypothesis), over ``/mcp`` with ids of sessions that are open, sealed by another
gateway, damaged or ended. A fault is a status of 500, another one of 5xx without an error of ours
as its cause, an answer that does not fit the document, a page without its policy, a traceback, or
no answer in time. After each door a good request has to be answered, and memory and descriptors
have to be about what they were.
"""

import http.client
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from benchmarks.fuzz import doors
from benchmarks.fuzz.doors import Door, Target
from benchmarks.fuzz.result import Result
from benchmarks.gateways import configure, gateway, scripted

_DOORS: dict[str, Door] = {
    "http": doors.http_routes,
    "page": doors.page,
    "mcp": doors.mcp,
    "message": doors.message,
    "stdio": doors.stdio,
}
DOORS = tuple(_DOORS)
_TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "erase", "inputSchema": {"type": "object", "required": ["what"]}},
]
_SETTINGS = {
    "TOOLSCRIPT_SEARCH_MODEL": "bundled",
    "TOOLSCRIPT_APPROVAL_TIMEOUT": "0.1",
    "TOOLSCRIPT_SECRET_KEY": doors.SECRET_KEY,
}
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def fuzz(names: Iterable[str], cases: int, seed: int) -> Iterator[Result]:
    """Yields what came of each door, which has a gateway of its own."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            yield _fuzz(name, Path(folder), cases, seed)


def _fuzz(name: str, folder: Path, cases: int, seed: int) -> Result:
    configure(folder, {"s": scripted(tools=_TOOLS)})
    door = _DOORS[name]
    with gateway(folder, **_SETTINGS) as started:
        process = psutil.Process(started.pid)
        warm = Result(name)
        door(Target(started.url, folder, max(1, cases // 20), seed + 1), warm)
        result = Result(name, faults=warm.faults)
        memory, descriptors = process.memory_info().rss, process.num_fds()
        door(Target(started.url, folder, cases, seed), result)
        grown = (process.memory_info().rss - memory) / 2**20
        result.growth_mib = max(result.growth_mib, grown)
        result.descriptors = process.num_fds() - descriptors
        status, *_ = doors.ask(started.url, "/message", _PING, {"Content-Type": "application/json"})
        if status != http.client.OK:
            result.fault("a good request is not answered any more", "ping")
    for log in folder.rglob("logs/*.log"):
        if "Traceback" in log.read_text("utf-8", "replace"):
            result.fault("a traceback in the log", log.name)
    return result
