"""Attacks a gateway's address: floods, slow clients, sessions, tokens, pages, random requests.

What is promised: no answer of 5xx but 503, nobody let in without a right, memory
that does not follow what is sent, an event loop that comes round, and others served.
"""

import http.client
import itertools
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.attack.base import Effort, Outcome
from benchmarks.chaos.observed import lag
from benchmarks.gateways import Started, configure, gateway, scripted
from toolscript.config.access_tokens import TokenStore
from toolscript.surfaces.mcp.session_limit import MAX_SESSIONS
from toolscript.types import EVERYTHING, Grant

MIB = 1024 * 1024
MAX_GROWTH_MIB = 64
"""What a flood before the token may add to the memory of the process."""
JSON = {"Content-Type": "application/json"}
HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
POST = HEAD.replace(b"GET /health", b"POST /message") + b"Content-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
ACCEPT = {**JSON, "Accept": "application/json, text/event-stream"}
LIMITED = ("sh", "-c", 'ulimit -n 256; exec "$@"', "sh")
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "hang")]


def attacks(effort: Effort) -> Iterator[Outcome]:
    """Everything, one after the other, on gateways of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configure(folder, {"s": scripted(tools=TOOLS, silent=["hang"])})
        with gateway(folder, TOOLSCRIPT_SEARCH_MODEL="bundled") as started:
            target = Target(started)
            yield from _floods(target, effort)
            yield _slow_bodies(target, effort)
            yield _sessions(target, effort)
            yield from _pages(target)
            yield from _random_messages(target, effort)
            yield _described(target, effort)
        with gateway(folder, TOOLSCRIPT_SEARCH_MODEL="bundled") as started:
            tokens = TokenStore(folder, key_of(folder))
            yield _guesses(Target(started), tokens, effort)
            yield _revocations(Target(started), tokens, effort)
            yield _last_tokens(Target(started), tokens, folder)
        with gateway(folder, wrap=LIMITED, TOOLSCRIPT_SEARCH_MODEL="bundled") as started:
            yield _half_requests(Target(started), effort)


@dataclass(eq=False)
class Observed:
    """A gateway while it is attacked."""

    before_mib: float
    peak_mib: float = 0.0
    answers_s: list[float] = field(default_factory=list[float])
    """How long others' requests for ``/health`` took."""
    unanswered: int = 0
    blocked: int = 0
    """How often the loop's own work made it late by more than 100 ms."""

    @property
    def grown_mib(self) -> float:
        """Memory at its peak, less what there was before."""
        return max(0.0, self.peak_mib - self.before_mib)

    def __str__(self) -> str:
        """The figures."""
        worst = max(self.answers_s, default=0.0) * 1000
        return (
            f"RSS {self.before_mib:.0f} → {self.peak_mib:.0f} MiB at most; /health {worst:.0f} ms "
            f"at worst of {len(self.answers_s)}; loop blocked > 100 ms: {self.blocked}"
        )


class Target:
    """A gateway, and how it is asked."""

    def __init__(self, started: Started) -> None:
        self.pid = started.pid
        self.url = started.url
        parts = urlsplit(started.url)
        self._address = parts.hostname or "", parts.port or 0

    def connect(self, timeout_s: float = 30.0) -> socket.socket:
        """A connection."""
        return socket.create_connection(self._address, timeout_s)

    def client(self) -> http.client.HTTPConnection:
        """A client that keeps its connection."""
        return http.client.HTTPConnection(*self._address, timeout=30)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, body and headers of an answer; 0 where there was none."""
        client = self.client()
        try:
            client.request(method, path, body, dict(headers or {}))
            response = client.getresponse()
            return response.status, response.read(), dict(response.headers)
        except (OSError, http.client.HTTPException):
            return 0, b"", {}
        finally:
            client.close()

    @property
    def resident_mib(self) -> float:
        """The memory of the process."""
        statm = Path(f"/proc/{self.pid}/statm").read_text("ascii")
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB

    @property
    def _blocked(self) -> int:
        status, text, _ = self.ask("GET", "/metrics")
        return lag(text.decode())["blocked"] if status == 200 else 0

    @contextmanager
    def observed(self) -> Generator[Observed]:
        """Look at memory and at others' answers while the block runs."""
        seen, ended = Observed(self.resident_mib), threading.Event()
        blocked = self._blocked

        def look() -> None:
            while not ended.wait(0.05):
                seen.peak_mib = max(seen.peak_mib, self.resident_mib)
                began = time.perf_counter()
                if self.ask("GET", "/health")[0] == 200:
                    seen.answers_s.append(time.perf_counter() - began)
                else:
                    seen.unanswered += 1

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield seen
        finally:
            ended.set()
            thread.join()
            seen.peak_mib = max(seen.peak_mib, self.resident_mib)
            seen.blocked = self._blocked - blocked


def key_of(folder: Path) -> str:
    """Returns the key of the configuration whose gateway runs in a folder."""
    [record] = folder.glob("run/gateway-*.json")
    return record.stem.removeprefix("gateway-")


# M4


def _floods(target: Target, effort: Effort) -> Iterator[Outcome]:
    size = effort.times(200) * MIB
    floods = {
        "many headers": (HEAD, b"X-A: b\r\n" * 8192),
        "one header": (HEAD + b"X-A: ", b"a" * 65536),
        "a request line": (b"GET /", b"a" * 65536),
        "trailers": (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n" * 8192),
        "extensions of chunks": (CHUNKED + b"1;", b"a" * 65536),
        "requests at once": (b"", (HEAD + b"\r\n") * 1024),
    }
    for name, (first, more) in floods.items():
        with target.observed() as seen:
            sent = sum(_flood(target, first, more, size) for _ in range(5))
        held = sent < 5 * size and seen.grown_mib < MAX_GROWTH_MIB and not seen.unanswered
        what = f"5 × {size // MIB} MB of {name}"
        yield Outcome("M4", what, 1, int(held), f"{sent // 1024} KiB taken; {seen}")
    with target.observed() as seen, ExitStack() as stack:
        for _ in range(number := effort.times(500)):
            made = stack.enter_context(target.connect())
            made.sendall(HEAD + b"X-A: " + b"a" * 60_000)
        time.sleep(1)
    held = int(seen.grown_mib < 2 * MAX_GROWTH_MIB)
    yield Outcome("M4", f"{number} heads of 60 KB, begun", 1, held, str(seen))


def _flood(target: Target, first: bytes, more: bytes, size: int) -> int:
    sent = 0
    with suppress(OSError), target.connect() as made:
        made.sendall(first)
        while sent < size:
            made.sendall(more)
            sent += len(more)
    return sent


# M5


def _half_requests(target: Target, effort: Effort) -> Outcome:
    """Others must be answered all the time, with 256 descriptors."""
    until = time.monotonic() + effort.times(15)
    number = 0
    with target.observed() as seen, ExitStack() as stack:
        while time.monotonic() < until:
            with suppress(OSError):
                stack.enter_context(target.connect()).sendall(HEAD)
                number += 1
            if number % 1_000 == 0:
                stack.close()  # and from the beginning
    tried = len(seen.answers_s) + seen.unanswered
    what = f"{number} half requests, `ulimit -n 256`: others' requests"
    return Outcome("M5", what, tried, tried - seen.unanswered, str(seen))


def _slow_bodies(target: Target, effort: Effort) -> Outcome:
    """Each is ended within its minute, and others are answered."""
    number = effort.times(200)
    began = time.monotonic()
    with target.observed() as seen, ExitStack() as stack:
        slow = [stack.enter_context(target.connect(90)) for _ in range(number)]
        for each in slow:
            each.sendall(POST + b"Content-Length: 1000\r\n\r\n{")
        while time.monotonic() - began < 50:  # a byte now and then helps nobody
            for each in slow:
                with suppress(OSError):
                    each.sendall(b" ")
            time.sleep(5)
        held = sum(_ended(each) for each in slow)
    took = time.monotonic() - began
    held = held if not seen.unanswered else 0
    return Outcome("M5", "slow bodies", number, held, f"all ended after {took:.0f} s; {seen}")


def _ended(made: socket.socket) -> bool:
    try:
        return made.recv(100).startswith(b"HTTP/1.1 408 ")
    except OSError:
        return False


# M6, M7, H5


def _initialize() -> bytes:
    client = {"name": "attack", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return json.dumps(message).encode()


def _sessions(target: Target, effort: Effort) -> Outcome:
    number = effort.times(5_000)
    opened: list[str] = []
    client = target.client()
    with target.observed() as seen:
        for _ in range(number):
            client.request("POST", "/mcp", _initialize(), ACCEPT)
            response = client.getresponse()
            response.read()
            opened.append(response.headers["mcp-session-id"])
    listing = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
    sample = opened[:: max(1, number // 500)]
    alive = [
        target.ask("POST", "/mcp", listing, {**ACCEPT, "mcp-session-id": each})[0] != 404
        for each in sample
    ]
    left = round(sum(alive) / len(alive) * number)
    held = left <= MAX_SESSIONS + number // 100 and alive[-1]
    figure = f"some {left} left; {seen}"
    return Outcome("M6", f"{number} sessions opened", 1, int(held), figure)


def _guesses(target: Target, tokens: TokenStore, effort: Effort) -> Outcome:
    tokens.create(EVERYTHING)
    chance = random.Random(effort.seed)  # noqa: S311 - makes up tokens
    number, held = effort.times(12_000), 0
    client = target.client()
    with target.observed() as seen:
        for _ in range(number):
            guess = f"ts_{chance.randbytes(chance.randrange(40)).hex()}"
            client.request("GET", "/tools", headers={"Authorization": f"Bearer {guess}"})
            response = client.getresponse()
            response.read()
            held += response.status == 401
    return Outcome("H5", "wrong tokens", number, held, str(seen))


def _revocations(target: Target, tokens: TokenStore, effort: Effort) -> Outcome:
    """Streams and calls under way, each in the name of a token that is revoked then."""
    number, held, worst = effort.times(40), 0, 0.0
    with ExitStack() as stack:
        open_ones: list[tuple[str, socket.socket]] = []
        for turn in range(number):
            made, secret = tokens.create(Grant(servers=("s",)) if turn % 2 else EVERYTHING)
            bearer = {"Authorization": f"Bearer {secret}"}
            connection = target.connect()
            stack.enter_context(connection)
            if turn % 4 < 2:
                _, _, headers = target.ask("POST", "/mcp", _initialize(), {**ACCEPT, **bearer})
                named = {"mcp-session-id": headers["mcp-session-id"], **ACCEPT, **bearer}
                connection.sendall(_raw("GET", "/mcp", named))
            else:
                connection.sendall(_raw("POST", "/tools/s__hang", {**JSON, **bearer}, b"{}"))
            open_ones.append((made.id, connection))
        time.sleep(1)
        for identifier, _ in open_ones:
            tokens.revoke(identifier)
        began = time.monotonic()
        for _, connection in open_ones:
            held += _is_over(connection)
            worst = time.monotonic() - began
    figure = f"all over {worst:.1f} s after the last"
    return Outcome("M7", "streams and calls of revoked tokens", number, held, figure)


def _raw(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _is_over(made: socket.socket) -> bool:
    """Whether what was asked is ended, with a 401 or in the middle of its stream."""
    received = b""
    made.settimeout(5)
    try:
        while data := made.recv(65536):
            received += data
            if received.endswith(b"0\r\n\r\n") or b"HTTP/1.1 401 " in received:
                return True
    except TimeoutError:
        return False
    return True


def _last_tokens(target: Target, tokens: TokenStore, folder: Path) -> Outcome:
    """Ways to lose the last token; none opens the gateway."""
    held = 0
    ways = [
        lambda: [tokens.revoke(each.id) for each in tokens.all()],
        lambda: [path.unlink() for path in folder.glob("tokens/tokens-*.json")],
        lambda: [path.write_bytes(b"") for path in folder.glob("tokens/tokens-*.json")],
        lambda: [path.write_bytes(b"[" * 10_000) for path in folder.glob("tokens/tokens-*.json")],
    ]
    for lose in ways:
        _, secret = tokens.create(EVERYTHING)
        lose()
        shown = {"Authorization": f"Bearer {secret}"}
        answers = [target.ask("GET", "/tools", headers=each)[0] for each in ({}, shown)]
        held += all(status in {401, 503} for status in answers)
        for path in folder.glob("tokens/tokens-*.json"):
            path.unlink()
    tokens.clear()
    return Outcome("H5", "ways to lose the last token", len(ways), held)


# M14


def _pages(target: Target) -> Iterator[Outcome]:
    """Everything that a page elsewhere can make a browser send."""
    host = target.url.partition("://")[2]
    origins = [
        *("http://localhost:3000", "http://127.0.0.1", "https://127.0.0.1", f"https://{host}"),
        *(f"x://{host}", "tauri://localhost", "http://evil.example", "null", "", "http://["),
        *(f"http://{host}.evil.example", f"http://{host}@evil.example", f"//{host}", host),
    ]
    sites = ["cross-site", "same-site"]
    kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None, ""]
    body = json.dumps({"method": "tools/call", "params": {"name": "s__echo"}}).encode()
    paths = [
        "/message",
        "/tools/s__echo",
        "/graph/clear",
        "/graph/import",
        "/skills/update",
        "/mcp",
    ]
    wanted: list[dict[str, str]] = [{"Origin": each, **ACCEPT} for each in origins]
    wanted += [{"Sec-Fetch-Site": each, **ACCEPT} for each in sites]
    browser = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept": ACCEPT["Accept"]}
    wanted += [browser if kind is None else {**browser, "Content-Type": kind} for kind in kinds]
    cases = list(itertools.product(paths, wanted, [body, b""]))
    held = sum(
        target.ask("POST", path, sent, headers)[0] in {400, 403, 415}
        for path, headers, sent in cases
    )
    yield Outcome("M14", "what a page can make a browser post", len(cases), held)
    gets = [{"Origin": each} for each in origins] + [{"Sec-Fetch-Site": each} for each in sites]
    refused = sum(target.ask("GET", "/tools", headers=each)[0] == 403 for each in gets)
    yield Outcome("M14", "the same with GET", len(gets), refused)


# L1, A4


def _random_messages(target: Target, effort: Effort) -> Iterator[Outcome]:
    """Requests of JSON-RPC in which anything may be anything."""
    for path, number in (("/message", effort.times(20_000)), ("/mcp", effort.times(2_000))):
        made = Messages(random.Random(effort.seed))  # noqa: S311 - makes up requests
        held, statuses = 0, dict[int, int]()
        client = target.client()
        with target.observed() as seen:
            for _ in range(number):
                try:
                    client.request("POST", path, made.body(), ACCEPT)
                    response = client.getresponse()
                    response.read()
                    status = response.status
                except (OSError, http.client.HTTPException):
                    client, status = target.client(), 0
                statuses[status] = statuses.get(status, 0) + 1
                held += 0 < status < 500
        figure = f"statuses {dict(sorted(statuses.items()))}; {seen}"
        yield Outcome("L1", f"random JSON-RPC at {path}", number, held, figure)


class Messages:
    """Makes up requests: mostly of the right shape, with something wrong in them."""

    METHODS = (
        *("initialize", "ping", "tools/list", "tools/call", "tools/call", "tools/call"),
        *("prompts/list", "prompts/get", "resources/list", "resources/read", "x", ""),
    )
    NAMES = (
        "search_tools",
        "describe_tools",
        "call_destructive_tool",
        "tool_search",
        "read_skill",
        "s__echo",
    )
    KEYS = (
        *("query", "limit", "context_tools", "tools", "tool", "arguments", "skill", "file"),
        *("needed", "include_skills", "max_tools", "uri", "name", "_meta", ""),
    )
    ODD: tuple[Any, ...] = (
        *(None, True, 0, -1, 1e308, 2**70, "", "x", "\x00", "﷽", "a" * 9000, "s__echo", "{}", "["),
        *([], {}, [None], {"": None}, "../../etc/passwd", "s:echo", "__", " ", "%00", "${HOME}"),
    )

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def body(self) -> bytes:
        """One request; now and then no JSON at all."""
        text = json.dumps(self._message()).encode()
        if self._chance.random() < 0.02:
            cut = self._chance.randrange(len(text) + 1)
            return text[:cut] + self._chance.randbytes(3)
        return text

    def _message(self) -> Any:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._or(1)}
        message["method"] = self._or(self._chance.choice(self.METHODS))
        params = {"name": self._or(self._chance.choice(self.NAMES)), "uri": self._or("mem://x")}
        params["arguments"] = self._or(self._arguments())
        message["params"] = self._or(params)
        return self._or(message, 0.02)

    def _arguments(self) -> dict[str, Any]:
        number = self._chance.randrange(5)
        return {self._chance.choice(self.KEYS): self._value() for _ in range(number)}

    def _or(self, value: Any, share: float = 0.15) -> Any:
        return self._value() if self._chance.random() < share else value

    def _value(self, depth: int = 0) -> Any:
        kind = self._chance.randrange(8 if depth < 3 else 6)
        if kind < 6:
            return self._chance.choice(self.ODD)
        parts = [self._value(depth + 1) for _ in range(self._chance.randrange(4))]
        return parts if kind == 6 else {self._chance.choice(self.KEYS): each for each in parts}


def _described(target: Target, effort: Effort) -> Outcome:
    """Ask as schemathesis makes it up from the OpenAPI document, where that is installed."""
    if find_spec("schemathesis") is None:
        return Outcome("L1", "schemathesis", 0, 0, "skipped: it is not installed")
    program = str(Path(sys.executable).with_name("schemathesis"))
    checks = ["--checks", "not_a_server_error", "--suppress-health-check", "all", "--no-color"]
    amount = ["--max-examples", str(effort.times(60)), "--seed", str(effort.seed)]
    command = [program, "--config-file", os.devnull, "run", f"{target.url}/openapi.json"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*command, *checks, *amount], cwd=folder, capture_output=True, text=True, check=False
        )
    counted = {name: int(number) for number, name in re.findall(r"(\d+) (\w+)", done.stdout)}
    tried, held = counted.get("generated", 1), counted.get("passed", 0)
    return Outcome("L1", "schemathesis", tried, tried if done.returncode == 0 else held)
