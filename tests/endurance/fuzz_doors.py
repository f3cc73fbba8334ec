"""The doors: each sends so many made-up requests, and notes in a `Result` what came of them."""

import contextlib
import http.client
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

import psutil
import schemathesis
import schemathesis.checks
from hypothesis.errors import Unsatisfiable

from tests.endurance import fuzz_requests as made_up
from tests.endurance.fuzz_requests import encoded
from tests.endurance.fuzz_result import PATIENCE_S, Result

"""The key of the gateway's session ids, so that those of another gateway can be made."""
_CHECK_EVERY = 20
"""Lines over standard input between two requests that are right."""


@dataclass(frozen=True)
class Target:
    """A gateway, and what is sent to it."""

    url: str
    folder: Path
    """An empty home directory."""
    cases: int
    seed: int


Door: TypeAlias = Callable[[Target, Result], None]


def ask(
    url: str, path: str, body: bytes, headers: dict[str, str], method: str = "POST"
) -> tuple[int, bytes, Any]:
    """Returns status, body and headers of an answer; raises an error where none comes in time."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read(), response.headers
    finally:
        connection.close()


# HTTP, from the document


def http_routes(target: Target, result: Result) -> None:
    """The routes of the OpenAPI document: requests that fit it, and requests that do not."""
    schema: Any = schemathesis.openapi.from_url(f"{target.url}/openapi.json")
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
        result.judge(response.status_code, response.content, sent)
        try:
            case.validate_response(response, checks=checks)
        except BaseExceptionGroup as error:
            result.fault(f"does not fit the document ({error!s:.300})", sent)

    kinds = [
        (each.ok(), mode)
        for each in schema.get_all_operations()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    ]
    # A route that takes nothing has one request that fits and none that does not. Such routes
    # come first, so that the others share what is left.
    kinds.sort(key=lambda kind: _freedom(kind[0]))
    first = result.cases
    for done, (operation, mode) in enumerate(kinds):
        left = target.cases - (result.cases - first)
        share = max(1, left // (len(kinds) - done))
        with contextlib.suppress(Unsatisfiable):
            made_up.run(operation.as_strategy(generation_mode=mode), share, target.seed, use)


def _freedom(operation: Any) -> int:
    """How much there is to choose: parameters other than switches, and a body."""
    described = operation.definition.raw
    kinds = [each["schema"].get("type") for each in described.get("parameters", ())]
    return ("requestBody" in described) + sum(1 if kind != "boolean" else 0 for kind in kinds)


# MCP


class _Sessions:
    """Ids of sessions: of one that is open, of one that has ended, and what is no id."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ended = self._open()
        self._end(self._ended)
        self._live = self._open()

    def headers(self, made: dict[str, str]) -> dict[str, str]:
        """Returns headers in which ``Session`` is the id of that name."""
        sent = dict(made)
        kind, place = sent.pop("Session", ""), int(sent.pop("Place", "0"))
        if kind:
            known = {"live": self._live, "ended": self._ended}
            sent["Mcp-Session-Id"] = known.get(kind) or _damaged(self._live, place)
        return sent

    def _open(self) -> str:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
        begin = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        status, _, headers = ask(self._url, "/mcp", encoded(begin), _JSON)
        if status != http.client.OK:
            raise SystemExit(f"a session cannot be opened: {status}")
        return headers["mcp-session-id"]

    def _end(self, identifier: str) -> None:
        ask(self._url, "/mcp", b"", {**_JSON, "Mcp-Session-Id": identifier}, "DELETE")


def _damaged(identifier: str, place: int) -> str:
    """Returns an id with one character changed, or cut there."""
    at = place % len(identifier)
    other = "A" if identifier[at] != "A" else "B"
    return identifier[:at] + (other + identifier[at + 1 :] if place % 3 else "")


_JSON = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
CLIENT = {"name": "fuzz", "version": "1"}


def mcp(target: Target, result: Result) -> None:
    """``/mcp``: odd headers, sessions of the older protocols, and requests of the newest."""
    sessions = _Sessions(target.url)
    strategy = made_up.posts() | made_up.session_posts() | made_up.newest_posts()
    _post(target, result, "/mcp", strategy, sessions.headers)


def message(target: Target, result: Result) -> None:
    """``/message``."""
    _post(target, result, "/message", made_up.posts(), dict)


def _post(
    target: Target,
    result: Result,
    path: str,
    strategy: Any,
    headers: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    def use(made: tuple[bytes, dict[str, str]]) -> None:
        result.cases += 1
        try:
            status, body, _ = ask(target.url, path, made[0], headers(made[1]))
        except (OSError, http.client.HTTPException) as error:
            result.fault(f"no answer ({type(error).__name__})", made)
            return
        result.judge(status, body, made)

    made_up.run(strategy, target.cases, target.seed, use)


# The page


def page(target: Target, result: Result) -> None:
    """The screens and forms of the page, with and without a cookie."""
    cookie = _cookie(target)

    def use(made: tuple[str, str, list[tuple[str, str]], dict[str, str]]) -> None:
        nonlocal cookie
        method, path, fields, headers = made
        result.cases += 1
        known = {"live": cookie, "none": "", "odd": f"{cookie.partition('=')[0]}=x"}
        sent = {**headers, "Cookie": known[headers["Session"]]}
        sent.pop("Session")
        address, form = f"/ui{quote(path)}", urlencode(fields)
        body = form.encode() if method == "POST" else b""
        try:
            where = address if body else f"{address}?{form}"
            status, answer, got = ask(target.url, where, body, sent, method)
        except (OSError, http.client.HTTPException) as error:
            result.fault(f"no answer ({type(error).__name__})", made)
            return
        result.judge(status, answer, made)
        is_html = got.get("content-type", "").startswith("text/html")
        if is_html and not got.get("content-security-policy"):
            result.fault("a page without its policy", made)
        if path == "/leave":
            cookie = _cookie(target)

    made_up.run(made_up.page_requests(), target.cases, target.seed, use)


def _cookie(target: Target) -> str:
    """Opens the page as its owner does, and returns the cookie of the new session."""
    record = json.loads(next(target.folder.glob("run/gateway-*.json")).read_text("utf-8"))
    _, body, _ = ask(target.url, "/ui/link", b"{}", {"Authorization": f"Bearer {record['key']}"})
    opened = ask(target.url, json.loads(body)["path"], b"", {}, "GET")[2]
    return opened["set-cookie"].partition(";")[0]


# Standard input and output


def stdio(target: Target, result: Result) -> None:
    """Lines to one ``toolscript mcp``, and after every twenty a request that is right."""
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(target.folder),
        "TOOLSCRIPT_GATEWAY_URL": target.url,
    }
    command = [sys.executable, "-P", "-m", "toolscript", "mcp"]
    errors = target.folder / "stderr.txt"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
        ) as process,
    ):
        client = _StdioClient(process, result)
        first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
        client.send(encoded({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": first}))
        warm = max(1, target.cases // 20)
        made_up.run(made_up.bodies(), warm, target.seed + 1, client.use)
        client.check("the start")
        begun = _memory_mib(process.pid)
        made_up.run(made_up.bodies(), target.cases - warm, target.seed, client.use)
        client.check("the end")
        result.growth_mib = _memory_mib(process.pid) - begun
        with contextlib.suppress(OSError):
            client.pipe.close()
        result.answers[f"exit {process.wait(PATIENCE_S)}"] += 1
    words = errors.read_bytes()
    if b"Traceback" in words:
        result.fault("a traceback on standard error", words[-300:])


def _memory_mib(pid: int) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).memory_info().rss / 2**20
    return 0.0


class _StdioClient:
    """Writes lines to a process, and reads what it says in a thread."""

    def __init__(self, process: "subprocess.Popen[bytes]", result: Result) -> None:
        self.pipe: Any = process.stdin
        self._result = result
        self._heard: Queue[bytes] = Queue()
        self._numbers = itertools.count()
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
        identifier = f"check-{next(self._numbers)}-"
        self.send(encoded({"jsonrpc": "2.0", "id": identifier, "method": "ping"}))
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
