"""Hostile servers: schemas, listings, results and floods that hold up a gateway (H2, M9, M18).

The promise is about the event loop: its own thread never computes for more than 100 ms at a time,
``/health`` is answered all the while, and memory has a bound.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.endurance.effort import Effort
from tests.endurance.observed import Observed, observed
from tests.gateways import SCRIPTED, Started, configure, gateway, scripted
from tests.hostile.schemas import HOSTILE
from tests.support import FUZZY, alive, until

_BODIES = SCRIPTED.with_name("bodies.py")
_MIB = 2**20
_RAW = '{"jsonrpc":"2.0","id":ID,"result":%s}'


@contextmanager
def watched(entry: Mapping[str, Any], **settings: str) -> Generator[tuple[Started, Observed]]:
    """Runs a gateway over one server; in the end its loop was never held, and it always answered.

    The script of a server that has one is put into a file: it is too long for a command line.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "url" not in entry:
            (folder / "fate.json").write_text(json.dumps(entry), "utf-8")
            entry = scripted(fate=str(folder / "fate.json"))
        configure(folder, {"s": entry})
        with gateway(folder, **FUZZY, **settings) as started:
            with observed(started) as seen:
                yield started, seen
            assert not seen.blocked, str(seen)
            assert not seen.unanswered, str(seen)


def tool(name: str, **more: Any) -> dict[str, Any]:
    """Returns the definition of a tool."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


# H2


@pytest.mark.long  # the usual run has `test_h2_a_hostile_schema_keeps_nobody_else_waiting`
def test_h2_hostile_schemas_keep_nobody_waiting(effort: Effort) -> None:
    """Each with no arguments, its own, and some of the others'."""
    tools = [
        tool(kind, inputSchema={**schema, "type": "object"})
        for kind, (schema, _) in HOSTILE.items()
        if kind != "half_a_character"  # which json.dumps writes as no server may
    ]
    arguments = [{}, *(given for _, given in HOSTILE.values() if given)]
    with watched({"tools": tools}) as (started, _):
        for definition in tools:
            own = HOSTILE[definition["name"]][1]
            for given in [own, *arguments[: effort.times(3)]]:
                body = json.dumps(given).encode()
                assert started.ask("POST", f"/tools/s__{definition['name']}", body)[0]


@pytest.mark.long
def test_h2_a_gateway_ends_among_hostile_calls() -> None:
    kinds = ["all_of", "not", "if_then", "pattern_properties", "additional_beside_patterns"]
    tools = [tool(kind, inputSchema={**HOSTILE[kind][0], "type": "object"}) for kind in kinds]
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "fate.json").write_text(json.dumps({"tools": tools}), "utf-8")
        configure(Path(name), {"s": scripted(fate=f"{name}/fate.json")})
        with gateway(Path(name), **FUZZY) as started:
            calls = [
                threading.Thread(
                    target=started.ask,
                    args=("POST", f"/tools/s__{kind}", json.dumps(HOSTILE[kind][1]).encode()),
                )
                for kind in kinds * 4
            ]
            for call in calls:
                call.start()
            os.kill(started.pid, signal.SIGTERM)
            until(lambda: not alive(started.pid), "the gateway has ended", 30)
            for call in calls:
                call.join()


# M9


def listings(effort: Effort) -> dict[str, list[Any]]:
    """Returns as much as a server can list, in every part of a tool."""
    number = effort.times(100)
    return {
        "descriptions": [tool(f"t{n}", description="x" * _MIB) for n in range(number)],
        "names": [tool(f"{'n' * _MIB}{n}") for n in range(number // 10 + 1)],
        "lists": [tool(f"t{n}", x=[[]] * (_MIB // 16)) for n in range(number // 10 + 1)],
        "fitting": [tool(f"t{n}", description="x" * 65_000) for n in range(number)],
        "many": [tool(f"t{n}") for n in range(effort.times(20_000))],
        "schemas": [
            tool(f"t{n}", inputSchema={"type": "object", "x": [[]] * 80_000})
            for n in range(number // 4 + 1)
        ],
    }


@pytest.mark.long  # the usual run has `test_m9_one_server_lists_so_much_and_no_more`
@pytest.mark.parametrize("page", [{}, {"page_size": 5}], ids=["one page", "many pages"])
@pytest.mark.parametrize("kind", listings(Effort(0)))
def test_m9_a_long_listing_keeps_nobody_waiting(
    kind: str, page: dict[str, Any], effort: Effort
) -> None:
    with watched({"tools": listings(effort)[kind], **page}):
        time.sleep(1)


# M18


def results(size: int) -> dict[str, str]:
    """Returns results of so many bytes."""
    return {
        "numbers": '{"content":[],"structuredContent":{"a":[' + "1," * (size // 2) + "1]}}",
        "lists": '{"content":[],"structuredContent":{"a":[' + "[]," * (size // 3) + "[]]}}",
        "fractions": '{"content":[],"structuredContent":{"a":[' + "1.5432," * (size // 7) + "1]}}",
        "text": '{"content":[{"type":"text","text":"' + "x" * size + '"}]}',
        "rows": '{"content":[{"type":"text","text":"' + "1,[{" * (size // 4) + '"}]}',
        "escapes": '{"content":[{"type":"text","text":"' + r"\n" * (size // 2) + '"}]}',
        "blocks": '{"content":[' + '{"type":"text","text":"x"},' * (size // 26) + "{}]}",
    }


@pytest.mark.long  # the usual run has `test_m18_large_results_at_the_doors`
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("megabytes", [15.9, 40], ids=["most", "over"])
def test_m18_large_results_keep_nobody_waiting(transport: str, megabytes: float) -> None:
    """Results below the limit and above it; called directly and by a model."""
    raw = {kind: _RAW % result for kind, result in results(int(megabytes * 1e6)).items()}
    if transport == "stdio":
        entry = {"tools": [tool(kind) for kind in raw], "raw": raw}
        with watched(entry) as (started, _):
            call_all(started, raw)
        return
    with bodies(raw) as url:
        entry = {"type": "http", "url": url, "protocol": "legacy"}
        with watched(entry) as (started, _):
            call_all(started, raw)


def call_all(started: Started, tools: Mapping[str, str]) -> None:
    """Calls tools by HTTP and as a model does."""
    for name in tools:
        params = {"name": "call_destructive_tool", "arguments": {"tool": f"s:{name}"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        assert started.ask("POST", f"/tools/s__{name}", b"{}")[0]
        assert started.ask("POST", "/message", json.dumps(message).encode())[0]


@contextmanager
def bodies(answers: Mapping[str, str]) -> Generator[str]:
    """Runs a server over HTTP that gives these answers."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "answers.json"
        prepared = {k: {"type": "application/json", "body": v} for k, v in answers.items()}
        file.write_text(json.dumps(prepared), "utf-8")
        command = [sys.executable, "-S", str(_BODIES), str(file)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout
                yield process.stdout.readline().strip()
            finally:
                process.kill()


_LONG = ("stdout", "line", "notifications", "list_changed")
"""The usual run has `test_floods` of `tests/gateway/upstream`."""


@pytest.mark.parametrize(
    "flood", ["stderr", *(pytest.param(kind, marks=pytest.mark.long) for kind in _LONG)]
)
def test_m18_a_flood_keeps_nobody_waiting(flood: str, effort: Effort) -> None:
    """A server says something without end."""
    with watched({"tools": [tool("t")], "flood": flood}):
        time.sleep(10 * effort.scale)
