"""Sends made-up requests through every door of a gateway, and looks for faults.

    python -m benchmarks.fuzz [--cases 10000] [--door http|mcp|message|stdio] [--seed 18] [--json]

``http`` makes requests from the OpenAPI document (schemathesis), those that fit it and those that
do not. The others send JSON-RPC in which anything may be anything (hypothesis). A fault is a status
of 500, another one of 5xx without an error of ours as its cause, an answer that does not fit the
document, a traceback, or no answer in time. After each door a good request has to be answered, and
memory and descriptors have to be about what they were.
"""

import argparse
import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from urllib.parse import urlsplit

import hypothesis
import psutil
import schemathesis
import schemathesis.checks
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from benchmarks.gateways import configure, gateway, scripted

_ABOUT = "Send made-up requests through every door of a gateway, and look for faults."
DOORS = ("http", "mcp", "message", "stdio")
PATIENCE_S = 30.0
"""An answer that takes longer counts as none."""
MAX_GROWTH_MIB, MAX_DESCRIPTORS = 64.0, 4
"""What may be left after a door: the allocator keeps some, and idle connections are open."""
_MAX_SHOWN = 5
_NO_CHECKS: Any = list(hypothesis.HealthCheck)
_CHECK_EVERY = 20
"""Lines over standard input between two requests that are right."""
_CAUSES = {502, 503, 504}
"""Statuses of 5xx that have a cause outside, which the answer names."""
_TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "erase", "inputSchema": {"type": "object", "required": ["what"]}},
]
_METHODS = (
    *("initialize", "notifications/initialized", "ping", "tools/list", "tools/call", "tools/call"),
    *("prompts/list", "prompts/get", "resources/list", "resources/read", "completion/complete"),
    *("notifications/cancelled", "logging/setLevel", "server/discover", "roots/list", "x", ""),
)
_NAMES = (
    *("search_tools", "describe_tools", "read_tool", "call_tool", "call_destructive_tool"),
    *("tool_search", "search_skills", "read_skill", "s__echo", "s:echo", "Vector.SearchSkills"),
)
_KEYS = (
    *("query", "limit", "context_tools", "tools", "tool", "arguments", "skill", "file", "needed"),
    *("max_tools", "uri", "name", "_meta", "protocolVersion", "capabilities", "clientInfo"),
    *("requestState", "inputResponses", "requestId", "cursor", "ref", "argument", "include_skills"),
)
_ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1.5, 1e308, 2**70, "", "x", "\x00", "﷽", "\ud800", "a" * 9000, "s__echo"),
    *("2025-06-18", "2026-07-28", "../../etc/passwd", "__", " ", "%00", "${HOME}", "{}", "["),
)


@dataclass
class Result:
    """What came of one door."""

    door: str
    cases: int = 0
    answers: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    growth_mib: float = 0.0
    descriptors: int = 0

    def fault(self, what: str, sent: object) -> None:
        """Note a fault, with what led to it."""
        self.faults.append(f"{what}: {sent!r:.300}")

    @property
    def is_clean(self) -> bool:
        """Whether there is no fault, and nothing has grown."""
        grown = self.growth_mib > MAX_GROWTH_MIB or self.descriptors > MAX_DESCRIPTORS
        return not (self.faults or grown)


def main() -> int:
    """Print a row for each door; 0 where all are clean."""
    parser = argparse.ArgumentParser(description=_ABOUT)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--door", choices=DOORS, action="append")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    results = list(fuzz(given.door or DOORS, given.cases, given.seed))
    if given.json:
        rows = [{**vars(r), "answers": dict(r.answers)} for r in results]
        print(json.dumps(rows, indent=2))
    else:
        print(f"{'door':<9}{'cases':>7}{'faults':>8}{'MiB':>7}{'fds':>5}  answers")
        for r in results:
            answers = ", ".join(f"{key} {number}" for key, number in sorted(r.answers.items()))
            grown = f"{r.growth_mib:>7.1f}{r.descriptors:>5}"
            print(f"{r.door:<9}{r.cases:>7}{len(r.faults):>8}{grown}  {answers}")
            for fault in r.faults[:_MAX_SHOWN]:
                print(f"  {fault}")
    return 0 if all(r.is_clean for r in results) else 1


def fuzz(doors: Any, cases: int, seed: int) -> Iterator[Result]:
    """Fuzz each door of a gateway of its own."""
    for door in doors:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            configure(folder, {"s": scripted(tools=_TOOLS)})
            settings = {"TOOLSCRIPT_SEARCH_MODEL": "bundled", "TOOLSCRIPT_APPROVAL_TIMEOUT": "0.1"}
            with gateway(folder, **settings) as started:
                result = Result(door)
                process = psutil.Process(started.pid)
                _WAYS[door](started.url, folder, result, max(1, cases // 20), seed + 1)  # warm up
                warm = Result(door, faults=result.faults)
                memory, descriptors = process.memory_info().rss, process.num_fds()
                _WAYS[door](started.url, folder, warm, cases, seed)
                warm.growth_mib = (process.memory_info().rss - memory) / 2**20
                warm.descriptors = process.num_fds() - descriptors
                if (
                    _post(started.url, "/message", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {})[
                        0
                    ]
                    != 200
                ):
                    warm.fault("a good request is not answered any more", "ping")
            for log in folder.rglob("logs/*.log"):
                if "Traceback" in log.read_text("utf-8", "replace"):
                    warm.fault("a traceback in the log", log.name)
            yield warm


def _run(
    strategy: st.SearchStrategy[Any], cases: int, seed: int, use: Callable[[Any], None]
) -> None:
    """Use so many examples, the same for a seed."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=cases,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=_NO_CHECKS,
    )
    @hypothesis.given(strategy)
    def each(example: Any) -> None:
        use(example)

    each()


# HTTP, from the document


def _fuzz_http(url: str, folder: Path, result: Result, cases: int, seed: int) -> None:
    del folder
    schema: Any = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations: list[Any] = [each.ok() for each in schema.get_all_operations()]
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    share = max(1, cases // (len(operations) * len(modes)))
    checks: Any = [
        schemathesis.checks.response_schema_conformance,
        schemathesis.checks.content_type_conformance,
    ]

    def use(case: Any) -> None:
        result.cases += 1
        try:
            response = case.call(timeout=PATIENCE_S)
        except Exception as error:  # noqa: BLE001 - whatever the client says
            if "Invalid" not in type(error).__name__:
                result.fault(f"no answer ({type(error).__name__})", case.as_curl_command())
            return
        sent = f"{case.method} {case.formatted_path} {case.query} {case.body!r:.200}"
        _judge(result, response.status_code, response.content, sent)
        try:
            case.validate_response(response, checks=checks)
        except BaseExceptionGroup as error:
            result.fault(f"does not fit the document ({error!s:.300})", sent)

    for operation in operations:
        for mode in modes:
            try:
                _run(operation.as_strategy(generation_mode=mode), share, seed, use)
            except Unsatisfiable:  # nothing about it can be wrong
                continue


# JSON-RPC


def _values() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(_ODD) | st.sampled_from(_NAMES) | st.integers() | st.text(max_size=30)
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(_KEYS) | st.text(max_size=8), inner, max_size=5)
        ),
        max_leaves=12,
    )


def _messages() -> st.SearchStrategy[Any]:
    values = _values()
    arguments = st.dictionaries(st.sampled_from(_KEYS), values, max_size=5)
    params = st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(_NAMES) | values,
            "arguments": arguments | values,
            "uri": values,
            "_meta": values,
            "protocolVersion": values,
            "capabilities": values,
            "clientInfo": values,
        },
    )
    fitting = st.fixed_dictionaries(
        {"method": st.sampled_from(_METHODS)},
        optional={
            "jsonrpc": st.just("2.0") | values,
            "id": st.integers(0, 2**40) | values,
            "params": params | values,
            "result": values,
            "error": values,
        },
    )
    return fitting | st.lists(fitting, max_size=3) | values


def _encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def _bodies() -> st.SearchStrategy[bytes]:
    messages = _messages().map(_encoded)
    cut = st.tuples(messages, st.integers(0, 200), st.binary(max_size=4)).map(
        lambda parts: parts[0][: parts[1]] + parts[2]
    )
    deep = st.integers(1, 3000).map(lambda levels: b"[" * levels + b"]" * levels)
    odd = st.sampled_from(
        [b"", b"NaN", b'{"id":1e999}', b'{"a":1,"a":2}', b"\xff\xfe", b"null", b"\xef\xbb\xbf{}"]
    )
    return st.one_of(messages, messages, messages, cut, deep, odd, st.binary(max_size=60))


def _headers() -> st.SearchStrategy[dict[str, str]]:
    texts = st.sampled_from(
        ["", "x", "2025-06-18", "2026-07-28", "1", "a" * 300, "../..", "%00", "tools/call"]
    )
    names = st.sampled_from(
        [
            *("Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Last-Event-Id"),
            *("Toolscript-Session", "Toolscript-Profile", "Toolscript-Project"),
        ]
    )
    accepts = st.sampled_from(["application/json, text/event-stream", "application/json", "*/*"])
    more = st.dictionaries(names, texts, max_size=2)
    return st.tuples(accepts, more).map(lambda pair: {"Accept": pair[0], **pair[1]})


def _fuzz_posts(path: str) -> Callable[[str, Path, Result, int, int], None]:
    def work(url: str, folder: Path, result: Result, cases: int, seed: int) -> None:
        del folder

        def use(sent: tuple[bytes, dict[str, str]]) -> None:
            result.cases += 1
            try:
                status, body = _post(url, path, *sent)
            except (OSError, http.client.HTTPException) as error:
                result.fault(f"no answer ({type(error).__name__})", sent)
                return
            _judge(result, status, body, sent)

        _run(st.tuples(_bodies(), _headers()), cases, seed, use)

    return work


def _post(url: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        kind = response.headers.get("content-type", "")
        # A stream of events stays open: its first piece is enough.
        text = response.read1(65536) if "event-stream" in kind else response.read()
        return response.status, text
    finally:
        connection.close()


def _judge(result: Result, status: int, body: bytes, sent: object) -> None:
    result.answers[str(status)] += 1
    if b"Traceback" in body:
        result.fault("a traceback in an answer", sent)
    if status >= 500:
        try:
            has_cause = status in _CAUSES and bool(json.loads(body)["type"])
        except (ValueError, KeyError, TypeError):
            has_cause = False
        if not has_cause:
            result.fault(f"status {status} {body[:200]!r}", sent)


# Standard input and output


def _fuzz_stdio(url: str, folder: Path, result: Result, cases: int, seed: int) -> None:
    """Send lines to one ``toolscript mcp``, and after every twenty a request that is right."""
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "TOOLSCRIPT_GATEWAY_URL": url}
    command = [sys.executable, "-P", "-m", "toolscript", "mcp"]
    errors = folder / "stderr.txt"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
    ):
        client = _StdioClient(process, result)
        first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT}
        client.send(_encoded({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": first}))
        _run(_bodies(), cases, seed, client.use)
        client.check("the end")
        with contextlib.suppress(OSError):
            client.pipe.close()
        result.answers[f"exit {process.wait(PATIENCE_S)}"] += 1
    words = errors.read_bytes()
    if b"Traceback" in words:
        result.fault("a traceback on standard error", words[-300:])


class _StdioClient:
    """Writes lines to a process, and reads what it says in a thread."""

    def __init__(self, process: "subprocess.Popen[bytes]", result: Result) -> None:
        self.pipe: Any = process.stdin
        self._result = result
        self._heard: Queue[bytes] = Queue()
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def use(self, sent: bytes) -> None:
        """Send one example; look now and then whether a good request is answered."""
        self._result.cases += 1
        self.send(sent.replace(b"\n", b" "))
        if self._result.cases % _CHECK_EVERY == 0:
            self.check(sent)

    def send(self, line: bytes) -> None:
        """Send a line; nothing where the process has ended, which `check` finds out."""
        with contextlib.suppress(OSError):
            self.pipe.write(line + b"\n")
            self.pipe.flush()

    def check(self, last: object) -> None:
        """Ask something that is right, and read until its answer comes."""
        identifier = f"check-{self._result.cases}"
        self.send(_encoded({"jsonrpc": "2.0", "id": identifier, "method": "ping"}))
        while True:
            try:
                line = self._heard.get(timeout=PATIENCE_S)
            except Empty:
                self._result.fault("a good request is not answered any more", last)
                return
            if b"Traceback" in line:
                self._result.fault("a traceback on standard output", line)
            if identifier.encode() in line:
                return
            self._result.answers["error" if b'"error"' in line else "message"] += 1

    def _read(self, pipe: Any) -> None:
        for line in pipe:
            self._heard.put(line)


_CLIENT = {"name": "fuzz", "version": "1"}
_WAYS = {
    "http": _fuzz_http,
    "mcp": _fuzz_posts("/mcp"),
    "message": _fuzz_posts("/message"),
    "stdio": _fuzz_stdio,
}

if __name__ == "__main__":
    sys.exit(main())
