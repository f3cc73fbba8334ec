"""Hostile servers: schemas, listings, results, lines and floods that hold up a gateway.

What is promised is about the event loop: its own thread never computes for more than 100 ms
at a time, ``/health`` is answered all the while, and memory has a bound.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from tests.hostile.schemas import HOSTILE

from benchmarks.attack.base import Effort, Outcome
from benchmarks.chaos.observed import lag
from benchmarks.gateways import SCRIPTED, Started, configure, gateway, scripted

_BODIES = SCRIPTED.with_name("bodies.py")
_MIB = 2**20
_PATIENCE_S = 60.0
_FUZZY = {"TOOLSCRIPT_SEARCH_MODEL": "none-such", "TOOLSCRIPT_SEARCH_FALLBACK": "fuzzy"}
_ANSWER = '{"jsonrpc":"2.0","id":ID,"result":%s}'
_UNREADABLE = {
    "digits": _ANSWER % ('{"content":[],"x":' + "9" * 5000 + "}"),
    "deep": _ANSWER % ('{"content":[],"x":' + "[" * 300 + "]" * 300 + "}"),
    "deeper": _ANSWER % ('{"content":[],"x":' + "[" * 100_000 + "]" * 100_000 + "}"),
    "half a character": _ANSWER % r'{"content":[{"type":"text","text":"\ud83d"}]}',
    "no JSON": _ANSWER % '{"content":[],"x":oops}',
    "no object": _ANSWER % "5",
    "large, no JSON": _ANSWER % ('{"content":[],"x":"' + "y" * _MIB + '","z":oops}'),
    "large, no object": _ANSWER % ("[" + "1," * _MIB + "1]"),
    "large flags": _ANSWER % ('{"content":[],"isError":[' + "1," * _MIB + "1]}"),
}


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Attack a gateway of our own from behind, kind by kind."""
    yield _schemas(effort)
    yield _listings(effort)
    yield from _results()
    yield _lines(effort)
    yield from _floods(effort)
    yield _stopped()


class _Watched:
    """A gateway that is asked for its health all the time."""

    def __init__(self, started: Started) -> None:
        self.started = started
        self.http = httpx2.Client(base_url=started.url, timeout=_PATIENCE_S)
        self.worst_s = 0.0
        self.silent = 0
        self._blocked = self._lag()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def blocked(self) -> int:
        """How often the loop has computed for more than 100 ms since this was asked last."""
        before, self._blocked = self._blocked, self._lag()
        return self._blocked - before

    def figure(self) -> str:
        """What was measured."""
        return f"/health within {self.worst_s * 1000:.0f} ms, peak {self.peak_mib():.0f} MiB"

    def peak_mib(self) -> float:
        """The most memory that was resident."""
        status = Path(f"/proc/{self.started.pid}/status").read_text("utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def close(self) -> None:
        """Ask no more."""
        self._over.set()
        self._thread.join()
        self.http.close()

    def _lag(self) -> int:
        return lag(self.http.get("/metrics").text)["blocked"]

    def _ask(self) -> None:
        with httpx2.Client(base_url=self.started.url, timeout=10) as http:
            while not self._over.wait(0.01):
                began = time.perf_counter()
                try:
                    http.get("/health")
                except httpx2.HTTPError:
                    self.silent += 1
                self.worst_s = max(self.worst_s, time.perf_counter() - began)


@contextmanager
def _watched(servers: Callable[[Path], Mapping[str, Any]], **settings: str) -> Generator[_Watched]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configure(folder, servers(folder))
        with gateway(folder, **_FUZZY, **settings) as started:
            watched = _Watched(started)
            try:
                yield watched
            finally:
                watched.close()


def _entry(folder: Path, **will: Any) -> dict[str, Any]:
    """A scripted server whose script is too long for a command line."""
    (folder / "fate.json").write_text(json.dumps(will), "utf-8")
    return scripted(fate=str(folder / "fate.json"))


def _tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def _schemas(effort: Effort) -> Outcome:
    """Every hostile schema, with no arguments, its own, and all the others'."""
    tools = [
        _tool(kind, inputSchema={**schema, "type": "object"})
        for kind, (schema, _) in HOSTILE.items()
        if kind != "half_a_character"  # which json.dumps writes as no server may
    ]
    given = [{}, *(arguments for _, arguments in HOSTILE.values() if arguments)]
    tried = held = 0
    with _watched(lambda folder: {"s": _entry(folder, tools=tools)}) as watched:
        for tool in tools:
            own = HOSTILE[tool["name"]][1]
            for arguments in [own, *given[: effort.times(3)]]:
                with suppress(TypeError, ValueError):  # a number that JSON does not know
                    watched.http.post(f"/tools/s__{tool['name']}", json=arguments)
                tried += 1
                held += not watched.blocked()
        figure = watched.figure()
        return Outcome("H2", "hostile schemas", tried, held - watched.silent, figure)


def _listings(effort: Effort) -> Outcome:
    """As much as a server can list, in every part of a tool."""
    number, size = effort.times(100), _MIB
    listings: dict[str, list[Any]] = {
        "descriptions": [_tool(f"t{n}", description="x" * size) for n in range(number)],
        "names": [_tool(f"{'n' * size}{n}") for n in range(number // 10 + 1)],
        "lists": [_tool(f"t{n}", x=[[]] * (size // 16)) for n in range(number // 10 + 1)],
        "fitting": [_tool(f"t{n}", description="x" * 65_000) for n in range(number)],
        "many": [_tool(f"t{n}") for n in range(effort.times(20_000))],
        "schemas": [
            _tool(f"t{n}", inputSchema={"type": "object", "x": [[]] * 80_000})
            for n in range(number // 4 + 1)
        ],
    }
    held = 0
    figures: list[float] = []
    for tools in listings.values():
        for page in (0, 5):
            entry = {"tools": tools, "page_size": page} if page else {"tools": tools}
            with _watched(lambda folder, entry=entry: {"s": _entry(folder, **entry)}) as watched:
                time.sleep(1)
                held += not watched.blocked() and not watched.silent
                figures.append(watched.peak_mib())
    return Outcome("M9", "listings", 2 * len(listings), held, f"peak {max(figures):.0f} MiB")


def _shapes(size: int) -> dict[str, str]:
    """Results of this many bytes."""
    return {
        "numbers": '{"content":[],"structuredContent":{"a":[' + "1," * (size // 2) + "1]}}",
        "lists": '{"content":[],"structuredContent":{"a":[' + "[]," * (size // 3) + "[]]}}",
        "fractions": '{"content":[],"structuredContent":{"a":[' + "1.5432," * (size // 7) + "1]}}",
        "text": '{"content":[{"type":"text","text":"' + "x" * size + '"}]}',
        "rows": '{"content":[{"type":"text","text":"' + "1,[{" * (size // 4) + '"}]}',
        "escapes": '{"content":[{"type":"text","text":"' + r"\n" * (size // 2) + '"}]}',
        "blocks": '{"content":[' + '{"type":"text","text":"x"},' * (size // 26) + "{}]}",
    }


def _results() -> Iterator[Outcome]:
    """Results below the limit, above it, and below a raised one; at every door."""
    sizes = {"7.9 MB": (7_900_000, "8"), "40 MB": (40_000_000, "8")}
    for label, (size, limit) in (sizes | {"16 MB, limit raised": (15_900_000, "16")}).items():
        shapes = _shapes(size)
        raw = {kind: _ANSWER % result for kind, result in shapes.items()}
        tools = [_tool(kind) for kind in shapes]
        with _watched(
            lambda folder, raw=raw, tools=tools: {"s": _entry(folder, tools=tools, raw=raw)},
            TOOLSCRIPT_MESSAGE_LIMIT=limit,
        ) as watched:
            yield _called(watched, "M18", f"{label} over stdio", list(shapes))
        with (
            _bodies(raw) as url,
            _watched(
                lambda _, url=url: {"s": {"type": "http", "url": url, "protocol": "legacy"}},
                TOOLSCRIPT_MESSAGE_LIMIT=limit,
            ) as watched,
        ):
            yield _called(watched, "M18", f"{label} over HTTP", list(shapes))


def _called(watched: _Watched, row: str, attack: str, tools: list[str]) -> Outcome:
    """Call tools by HTTP and as a model does."""
    tried = held = 0
    for name in tools:
        for path, body in _doors(name):
            watched.http.post(path, json=body)
            tried += 1
            held += not watched.blocked()
    return Outcome(row, attack, tried, held - watched.silent, watched.figure())


def _doors(name: str) -> list[tuple[str, Any]]:
    params = {"name": "call_destructive_tool", "arguments": {"tool": f"s:{name}"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return [(f"/tools/s__{name}", {}), ("/message", message)]


@contextmanager
def _bodies(answers: Mapping[str, str]) -> Generator[str]:
    """A server over HTTP that gives these answers."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "answers.json"
        prepared = {k: {"type": "application/json", "body": v} for k, v in answers.items()}
        file.write_text(json.dumps(prepared), "utf-8")
        command = [sys.executable, "-S", str(_BODIES), str(file)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            try:
                assert process.stdout  # noqa: S101 - it was opened with a pipe
                yield process.stdout.readline().strip()
            finally:
                process.kill()


def _lines(effort: Effort) -> Outcome:
    """Answers that cannot be read: each fails at once, long before its time is over."""
    tried = held = 0
    tools = [_tool(kind.replace(" ", "_").replace(",", "")) for kind in _UNREADABLE]
    raw = {tool["name"]: line for tool, line in zip(tools, _UNREADABLE.values(), strict=True)}
    with _watched(lambda folder: {"s": _entry(folder, tools=tools, raw=raw)}) as watched:
        for _ in range(effort.times(5)):
            for tool in tools:
                began = time.perf_counter()
                watched.http.post(f"/tools/s__{tool['name']}", json={})
                tried += 1
                held += time.perf_counter() - began < _PATIENCE_S / 2 and not watched.blocked()
        return Outcome("L2", "unreadable lines", tried, held - watched.silent, watched.figure())


def _floods(effort: Effort) -> Iterator[Outcome]:
    """Whatever a server can say without end."""
    for flood in ("stderr", "stdout", "line", "notifications", "list_changed"):
        entry = {"tools": [_tool("t")], "flood": flood}
        with _watched(lambda folder, entry=entry: {"s": _entry(folder, **entry)}) as watched:
            time.sleep(max(1.0, 4 * effort.scale))
            held = int(not watched.blocked() and not watched.silent)
            yield Outcome("M18", f"flood of {flood}", 1, held, watched.figure())


def _stopped() -> Outcome:
    """A gateway whose every call is hostile ends when it is told to."""
    kinds = ["all_of", "not", "if_then", "pattern_properties", "additional_beside_patterns"]
    tools = [_tool(kind, inputSchema={**HOSTILE[kind][0], "type": "object"}) for kind in kinds]
    with _watched(lambda folder: {"s": _entry(folder, tools=tools)}) as watched:
        calls = [
            threading.Thread(target=_call_and_forget, args=(watched.started.url, kind))
            for kind in kinds * 4
        ]
        for call in calls:
            call.start()
        began, pid = time.perf_counter(), watched.started.pid
        os.kill(pid, 15)
        while Path(f"/proc/{pid}").exists() and time.perf_counter() - began < _PATIENCE_S:
            time.sleep(0.05)
        took = time.perf_counter() - began
        for call in calls:
            call.join()
    return Outcome("H2", "SIGTERM among hostile calls", 1, int(took < 30), f"ended in {took:.1f} s")


def _call_and_forget(url: str, kind: str) -> None:
    with suppress(httpx2.HTTPError):
        httpx2.post(f"{url}/tools/s__{kind}", json=HOSTILE[kind][1], timeout=_PATIENCE_S)
