"""Floods of requests, slow clients, many sessions, wrong tokens, and a crowd: rows M4 to M6, A4.

The promise: memory does not follow what is sent, the event loop comes round, nobody is let in
without a right, and others are served.
"""

import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.deploy.shipped import balancer
from tests.endurance.effort import Effort
from tests.endurance.observed import MIB, observed, resident_mib
from tests.gateways import JSON, Started, configure, gateway, scripted
from tests.support import FEW_DESCRIPTORS, until
from toolscript.config.access_tokens import TokenStore
from toolscript.surfaces.mcp.session_limit import MAX_SESSIONS
from toolscript.types import EVERYTHING, Grant, PermissionRule

_MAX_GROWTH_MIB = 64
"""The memory that a flood before the token may add to the process."""
_HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_POST = _HEAD.replace(b"GET /health", b"POST /message") + b"Content-Type: application/json\r\n"
_CHUNKED = _POST + b"Transfer-Encoding: chunked\r\n\r\n"
_ACCEPT = {**JSON, "Accept": "application/json, text/event-stream"}
_MODEL = {"TOOLSCRIPT_SEARCH_MODEL": "bundled"}
_TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "edit", "inputSchema": {"type": "object"}},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    configure(tmp_path, {"s": scripted(tools=_TOOLS)})
    return tmp_path


@pytest.fixture(scope="module")
def started() -> Generator[Started]:
    """A gateway without a token, which the floods share."""
    with tempfile.TemporaryDirectory() as name:
        configure(Path(name), {"s": scripted(tools=_TOOLS)})
        with gateway(Path(name), **_MODEL) as started:
            yield started


def token_store(folder: Path) -> TokenStore:
    """Returns the tokens of the gateway that runs in a folder."""
    [record] = folder.glob("run/gateway-*.json")
    return TokenStore(folder, record.stem.removeprefix("gateway-"))


# M4

_FLOODS = {
    "many headers": (_HEAD, b"X-A: b\r\n" * 8192),
    "one header": (_HEAD + b"X-A: ", b"a" * 65536),
    "a request line": (b"GET /", b"a" * 65536),
    "trailers": (_CHUNKED + b"2\r\n{}\r\n0\r\n", b"X-A: b\r\n" * 8192),
    "extensions of chunks": (_CHUNKED + b"1;", b"a" * 65536),
    "requests at once": (b"", (_HEAD + b"\r\n") * 1024),
}


def flood(gateway: Started, first: bytes, more: bytes, size: int) -> int:
    """Sends until the gateway hangs up; returns how many bytes it took."""
    sent = 0
    with suppress(OSError), gateway.connect() as connection:
        connection.sendall(first)
        while sent < size:
            connection.sendall(more)
            sent += len(more)
    return sent


@pytest.mark.long  # the usual run has `test_m4_a_flood_before_the_body_is_cut`
@pytest.mark.parametrize("kind", _FLOODS)
def test_m4_a_flood_is_cut(started: Started, kind: str, effort: Effort) -> None:
    first, more = _FLOODS[kind]
    size = effort.times(200, 8) * MIB
    with observed(started) as seen:
        sent = sum(flood(started, first, more, size) for _ in range(effort.times(5)))
    assert sent < 5 * size
    assert seen.grown_mib < _MAX_GROWTH_MIB, str(seen)
    assert not seen.unanswered, str(seen)


def test_m4_begun_heads_are_bounded(started: Started, effort: Effort) -> None:
    with observed(started) as seen, ExitStack() as stack:
        for _ in range(effort.times(500)):
            connection = stack.enter_context(started.connect())
            connection.sendall(_HEAD + b"X-A: " + b"a" * 60_000)
        time.sleep(1)
    assert seen.grown_mib < 2 * _MAX_GROWTH_MIB, str(seen)


# M5


@pytest.mark.requirement("deploy:compose")
def test_m5_half_requests_keep_nobody_out(folder: Path, effort: Effort) -> None:
    """With 256 descriptors, and more half requests than these; the shipped balancer keeps them."""
    with (
        gateway(folder, wrap=FEW_DESCRIPTORS, **_MODEL) as alone,
        balancer(folder, alone.url) as url,
    ):
        started = replace(alone, url=url)
        with observed(started) as seen, ExitStack() as stack:
            for number in range(1, effort.times(30_000)):
                with suppress(OSError):
                    stack.enter_context(started.connect()).sendall(_HEAD)
                if number % 1_000 == 0:
                    stack.close()  # and from the beginning
            until(lambda: seen.answers_s, "a request is answered")
    assert not seen.unanswered, str(seen)


@pytest.mark.long
def test_m5_the_balancer_ends_half_requests(folder: Path) -> None:
    with (
        gateway(folder, **_MODEL) as alone,
        balancer(folder, alone.url) as url,
        replace(alone, url=url).connect() as connection,
    ):
        connection.sendall(_HEAD)
        assert not connection.recv(1)


def is_refused(connection: socket.socket) -> bool:
    """Whether the gateway has refused a request that did not come to an end."""
    try:
        return connection.recv(100).startswith(b"HTTP/1.1 400 ")
    except OSError:
        return False


@pytest.mark.long  # the usual run has `test_a_body_has_to_arrive_in_time`
def test_m5_slow_bodies_end_within_a_minute(started: Started) -> None:
    """A byte now and then helps nobody."""
    begun = time.monotonic()
    with observed(started) as seen, ExitStack() as stack:
        slow = [stack.enter_context(started.connect(90)) for _ in range(200)]
        for connection in slow:
            connection.sendall(_POST + b"Content-Length: 1000\r\n\r\n{")
        while time.monotonic() - begun < 50:
            for connection in slow:
                with suppress(OSError):
                    connection.sendall(b" ")
            time.sleep(5)
        assert all(is_refused(connection) for connection in slow)
    assert time.monotonic() - begun < 90
    assert not seen.unanswered, str(seen)


# M6, H5


def initialize() -> bytes:
    """Returns the first message of a session."""
    client = {"name": "attack", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    return json.dumps(message).encode()


def test_m6_many_sessions_leave_so_many(started: Started, effort: Effort) -> None:
    number = effort.times(5_000)
    opened: list[str] = []
    with observed(started) as seen, closing(started.client()) as client:
        for _ in range(number):
            client.request("POST", "/mcp", initialize(), _ACCEPT)
            response = client.getresponse()
            response.read()
            opened.append(response.headers["mcp-session-id"])
    ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
    sample = opened[:: max(1, number // 500)]
    alive = [
        started.ask("POST", "/mcp", ping, {**_ACCEPT, "mcp-session-id": identifier})[0] != 404
        for identifier in sample
    ]
    assert sum(alive) / len(alive) * number <= MAX_SESSIONS + number // 100
    assert alive[-1]
    assert not seen.unanswered, str(seen)


@pytest.mark.long  # the usual run has `test_l14_wrong_tokens_are_told_of_once_a_minute`
def test_h5_wrong_tokens_are_refused_and_fill_no_log(folder: Path, effort: Effort) -> None:
    chance = effort.chance
    with gateway(folder, TOOLSCRIPT_LOG_LEVEL="info", **_MODEL) as started:
        token_store(folder).create(EVERYTHING)
        statuses = set[int]()
        with observed(started) as seen, closing(started.client()) as client:
            for _ in range(effort.times(12_000)):
                guess = f"ts_{chance.randbytes(chance.randrange(40)).hex()}"
                client.request("GET", "/tools", headers={"Authorization": f"Bearer {guess}"})
                response = client.getresponse()
                response.read()
                statuses.add(response.status)
        log = next((folder / "logs").glob("gateway-*.log")).read_text("utf-8")
    assert statuses == {401}
    assert 1 <= log.count("refused for lack of a valid token") <= 5
    assert not seen.unanswered, str(seen)


# A4: everything that a bearer may keep open, at once

_BEARERS = 10
_CROWD_MIB = 128
"""The memory that all of it may add to the process."""
_LINE = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"a" * int(3.9 * MIB)


@dataclass(eq=False)
class Owner:
    """The owner, who searches and calls all the while, and counts both."""

    gateway: Started
    ended: threading.Event = field(default_factory=threading.Event)
    served: int = 0
    refused: int = 0

    @property
    def headers(self) -> dict[str, str]:
        return {**JSON, "Authorization": f"Bearer {self.gateway.key}"}

    def work(self) -> None:
        """Asks until it is ended."""
        while not self.ended.wait(0.2):
            for method, path in (("GET", "/tools?q=echo"), ("POST", "/tools/s__echo")):
                body = b"{}" if method == "POST" else None
                well = self.gateway.ask(method, path, body, self.headers)[0] == 200
                self.served += well
                self.refused += not well


def request(path: str, token: str, kind: str, body: bytes | None) -> tuple[str, bytes]:
    """Returns the head and the body of a request; without a body, of an unfinished stream."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: {kind}\r\n"
    if body is None:
        return f"{head}Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n" % (len(_LINE), _LINE)
    return f"{head}Content-Length: {len(body)}\r\n", body


def send(stack: ExitStack, gateway: Started, head: str, body: bytes) -> None:
    """Sends a request on a connection that stays open; the gateway may end it meanwhile."""
    with suppress(OSError, http.client.HTTPException):
        connection = stack.enter_context(gateway.connect(5))
        connection.sendall(head.encode() + b"\r\n" + body)


@pytest.mark.long
@pytest.mark.parametrize("shipped", [False, True], ids=["alone", "balancer"])
def test_a4_a_crowd_takes_no_more_than_is_promised(
    folder: Path,
    effort: Effort,
    shipped: bool,  # noqa: FBT001 - of the table
) -> None:
    """Streams, waiting calls, links and large forms; twice, since memory must not stay taken."""
    with ExitStack() as stack:
        started = stack.enter_context(gateway(folder, **_MODEL))
        store = token_store(folder)
        grant = Grant(servers=("s",), permissions=(PermissionRule("s__edit", "ask"),))
        tokens = [store.create(grant)[1] for _ in range(_BEARERS)]
        if shipped:
            started = replace(started, url=stack.enter_context(balancer(folder, started.url)))
        for _ in range(2):
            print(crowd(started, tokens, effort))  # noqa: T201 - the figures, with -s
            time.sleep(35)  # the heap is released twice a minute
            print(f"later: {resident_mib(started.pid):.0f} MiB")  # noqa: T201 - the same


def crowd(started: Started, tokens: list[str], effort: Effort) -> str:
    """Opens everything at once, and checks what is promised; returns the figures."""
    owner = Owner(started)
    worker = threading.Thread(target=owner.work)
    worker.start()
    with observed(started) as seen, ExitStack() as stack:
        edit = json.dumps({"text": "a" * 100_000}).encode()
        form = b"a=" + b"b" * (4 * MIB - 2)
        kinds = [
            ("/tools/s__edit", "application/json", edit, effort.times(200)),
            ("/ui/access", "application/x-www-form-urlencoded", form, effort.times(8)),
            ("/mcp/stream", "application/x-ndjson", None, effort.times(1_000)),
        ]
        for number in range(effort.times(250)):
            bearer = {"Authorization": f"Bearer {tokens[number % _BEARERS]}"}
            started.ask("POST", "/ui/link", b"{}", {**JSON, **bearer})
        for path, kind, body, times in kinds:
            for number in range(times):
                token = tokens[number % _BEARERS]
                send(stack, started, *request(path, token, kind, body))
        waiting = json.loads(started.ask("GET", "/pending", None, owner.headers)[1])["pending"]
        time.sleep(5)
    owner.ended.set()
    worker.join()
    assert waiting
    assert owner.served
    assert not owner.refused
    assert not seen.unanswered, str(seen)
    assert seen.grown_mib <= _CROWD_MIB, (str(seen), resident_mib(started.pid))
    return f"{seen}; the owner: {owner.served} answers"
