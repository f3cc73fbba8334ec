"""Sessions that pile up, and what outlives its token: rows M6 and M7."""

import json
import logging
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.support import (
    FUZZY,
    PATIENCE_S,
    Cli,
    Running,
    Scripted,
    create_token,
    running,
    stop_all,
    tool,
    until,
    write_config,
)
from toolscript.app.task_monitor import TaskMonitor
from toolscript.config.access_tokens import TokenStore
from toolscript.surfaces.mcp.mcp_routes import McpRoutes
from toolscript.surfaces.mcp.request_context import Exposure
from toolscript.surfaces.mcp.session_limit import MAX_SESSIONS
from toolscript.surfaces.server.audit_log import Refusals
from toolscript.surfaces.server.authentication import (
    ACCESS,
    Access,
    OriginGuard,
    TokenAuthenticator,
)
from toolscript.surfaces.server.request_log import RequestStats
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher
from toolscript.types import EVERYTHING

ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
NEWEST = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}


def request(method: str, identifier: int = 1, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": params}
    return json.dumps(body).encode()


INITIALIZE = request(
    "initialize",
    protocolVersion="2025-06-18",
    capabilities={},
    clientInfo={"name": "t", "version": "1"},
)
INITIALIZED = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
LIST = request("tools/list", 2)


# M6


class RoutesUnderTest:
    """The routes of MCP in this process; each request has its holder's access."""

    def __init__(self, running: Running, routes: McpRoutes, admitted: set[str]) -> None:
        self._portal = running.portal
        self._routes = routes
        self.admitted = admitted

    def ask(
        self, body: bytes, session: str = "", holder: str = "ana", exposure: Exposure = "search"
    ) -> tuple[int, str]:
        """The status, and the session of the answer."""
        return self._portal.call(self._ask, body, session, holder, exposure)

    def open(self, holder: str = "ana") -> str:
        status, session = self.ask(INITIALIZE, holder=holder)
        assert status == 200
        assert self.ask(INITIALIZED, session, holder)[0] == 202
        return session

    async def _ask(
        self, body: bytes, session: str, holder: str, exposure: Exposure
    ) -> tuple[int, str]:
        named = {**ACCEPT, **({"mcp-session-id": session} if session else {})}
        headers = [(name.lower().encode(), value.encode()) for name, value in named.items()]
        scope: Scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
        sent = [{"type": "http.request", "body": body, "more_body": False}]
        got: list[Message] = []

        async def receive() -> Message:
            return sent.pop() if sent else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            got.append(message)

        scope |= {"query_string": b"", ACCESS: Access(EVERYTHING, holder)}
        await self._routes.answer(exposure, scope, receive, send)
        found = {name.decode(): value.decode() for name, value in got[0]["headers"]}
        return got[0]["status"], found.get("mcp-session-id", "")


@contextmanager
def serving(tmp_path: Path, **bounds: Any) -> Generator[RoutesUnderTest]:
    config = write_config(tmp_path / "config.json", {})
    admitted = {"ana", "bo"}
    with running(config) as app:
        revocations = RevocationWatcher(admitted.__contains__)
        routes = McpRoutes(app.app, "search", revocations, RequestStats(), **bounds)
        portal = app.portal
        with (
            portal.wrap_async_context_manager(revocations.running(TaskMonitor())),
            portal.wrap_async_context_manager(routes.running()),
        ):
            yield RoutesUnderTest(app, routes, admitted)


def test_m6_the_session_that_was_longest_idle_makes_room(tmp_path: Path) -> None:
    with serving(tmp_path, max_sessions=3) as mcp:
        first, second, third = (mcp.open() for _ in range(3))
        assert mcp.ask(LIST, first)[0] == 200
        fourth = mcp.open()
        until(lambda: mcp.ask(LIST, second)[0] == 404, "the second is over")
        assert [mcp.ask(LIST, each)[0] for each in (first, third, fourth)] == [200] * 3
        for _ in range(20):
            mcp.open()
        assert mcp.ask(LIST, fourth)[0] == 404


def test_m6_a_session_without_requests_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mcp")
    with serving(tmp_path, idle_s=0.05) as mcp:
        status, session = mcp.ask(INITIALIZE)
        assert status == 200
        until(lambda: "idle timeout" in caplog.text, "it is idle for too long")
        assert mcp.ask(LIST, session)[0] == 404


def test_m6_a_session_is_its_holders_alone(tmp_path: Path) -> None:
    """And of the address that opened it."""
    with serving(tmp_path) as mcp:
        session = mcp.open("ana")
        assert mcp.ask(LIST, session, "bo")[0] == 404
        assert mcp.ask(LIST, session, "ana", "all")[0] == 404
        for made_up in ("0" * 32, session[:-1], f"{session}0", "A" * 600):
            assert mcp.ask(LIST, made_up, "ana")[0] == 404
        assert mcp.ask(LIST, session, "ana")[0] == 200


# M7


class Client:
    """A gateway with a tool that does not return, and what a token's bearer asks it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.cli = Cli(home, FUZZY)
        calls, cancels = str(home / "calls"), str(home / "cancels")
        scripted = Scripted(home)
        server = scripted(tool("hang"), silent=["hang"], calls=calls, cancels=cancels)
        self.cli.configure(s=server)
        self.url = self.cli.start_gateway()
        [record] = self.cli.records
        key = record.stem.removeprefix("gateway-")
        self.store = TokenStore(record.parent.parent, key)
        self.connections: list[HTTPConnection] = []

    def close(self) -> None:
        for each in self.connections:
            each.close()
        stop_all(json.loads(path.read_text("utf-8"))["pid"] for path in self.cli.records)

    def send(
        self, method: str, path: str, token: str, body: bytes | None = None, **more: str
    ) -> HTTPResponse:
        """Send a request; the response as soon as it begins."""
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        self.connections.append(connection)
        named = {name.replace("_", "-"): value for name, value in more.items()}
        headers = {**ACCEPT, "Authorization": f"Bearer {token}", **named}
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def session(self, token: str) -> str:
        opened = self.send("POST", "/mcp", token, INITIALIZE)
        opened.read()
        session = opened.headers["mcp-session-id"]
        self.send("POST", "/mcp", token, INITIALIZED, mcp_session_id=session).read()
        return session

    def called(self) -> bool:
        """Whether the tool that hangs has been called; forgets it."""
        calls = self.home / "calls"
        return calls.exists() and '"hang"' in calls.read_text("utf-8")

    def forget(self) -> None:
        for name in ("calls", "cancels"):
            (self.home / name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[Client]:
    client = Client(tmp_path_factory.mktemp("revoked"))
    try:
        yield client
    finally:
        client.close()


@pytest.mark.anyio
async def test_m7_a_request_ends_with_its_holder() -> None:
    """Whatever it waits for."""
    admitted, statuses = {"ana"}, list[int]()
    revocations = RevocationWatcher(admitted.__contains__)

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, send
        admitted.clear()
        await receive()

    async def receive() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        statuses.extend(filter(None, [message.get("status")]))

    guard = OriginGuard(
        endless,
        admit=lambda _: Access(EVERYTHING, "ana"),
        revocations=revocations,
        refusals=Refusals(),
    )
    headers = [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    with anyio.fail_after(10):
        async with revocations.running(TaskMonitor()):
            await guard(scope, receive, send)
    assert statuses == [401]


def test_m7_who_has_no_valid_token_is_not_admitted_any_more(tmp_path: Path) -> None:
    store = TokenStore(tmp_path, "key")
    authenticator = TokenAuthenticator(store, "key", open_to_all=True)
    assert authenticator.is_admitted("anyone")
    [old, new] = [store.create(EVERYTHING, days=days)[0].id for days in (-1, 1)]
    assert [authenticator.is_admitted(each) for each in ("owner", new, old, "gone", "anyone")] == [
        *(True, True),
        *(False, False, False),
    ]


def test_m7_a_stream_ends_with_its_token(client: Client) -> None:
    """Of a session, and of the protocol that has none."""
    made, token = client.store.create(EVERYTHING)
    session = client.session(token)
    stream = client.send("GET", "/mcp", token, mcp_session_id=session)
    listen = request("subscriptions/listen", notifications={"toolsListChanged": True}, _meta=NEWEST)
    newest = {"mcp_protocol_version": "2026-07-28", "mcp_method": "subscriptions/listen"}
    subscription = client.send("POST", "/mcp", token, listen, **newest)
    assert [stream.status, subscription.status] == [200, 200]
    client.store.revoke(made.id)
    for each in (stream, subscription):
        each.read()  # to its end


@pytest.mark.parametrize("path", ["/tools/s__hang", "/message", "session", "newest"])
def test_m7_a_call_under_way_ends_with_its_token(client: Client, path: str) -> None:
    """Its answer reaches nobody, and its server is told that nobody waits."""
    client.forget()
    made, token = client.store.create(EVERYTHING)
    call: dict[str, Any] = {
        "name": "call_destructive_tool",
        "arguments": {"tool": "s__hang", "arguments": {}},
    }
    more: dict[str, str] = {}
    body = request("tools/call", 3, **call)
    if path == "session":
        path, more = "/mcp", {"mcp_session_id": client.session(token)}
    elif path == "newest":
        path = "/mcp"
        body = request("tools/call", 3, **call, _meta=NEWEST)
        more = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call"}
        more["mcp_name"] = "call_destructive_tool"
    elif path.startswith("/tools"):
        body = b"{}"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(lambda: client.send("POST", path, token, body, **more))
        until(client.called, "the call has arrived")
        client.store.revoke(made.id)
        response = answer.result(PATIENCE_S)
    assert b"SECRET" not in response.read()
    until((client.home / "cancels").exists, "the server is told")


def test_m7_what_began_without_a_token_ends_with_the_first_one(client: Client) -> None:
    client.store.clear()
    session = client.session("")
    stream = client.send("GET", "/mcp", "", mcp_session_id=session)
    assert stream.status == 200
    client.store.create(EVERYTHING)
    stream.read()


def test_m7_a_token_that_expires_ends_what_goes_on(client: Client) -> None:
    _, token = client.store.create(EVERYTHING, days=2 / 86400)
    stream = client.send("GET", "/mcp", token, mcp_session_id=client.session(token))
    assert stream.status == 200
    stream.read()


# Streams


class RawStream:
    """A session in one request, over a socket."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        self.socket = socket.create_connection((str(place.hostname), place.port or 0), PATIENCE_S)
        head = (
            f"POST /mcp/stream HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}"
            "\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        self.socket.sendall(head.encode())
        self.received = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def read_until(self, words: bytes) -> None:
        while words not in self.received:
            piece = self.socket.recv(65536)
            assert piece, self.received
            self.received += piece

    def has_ended(self) -> bool:
        self.socket.settimeout(0)
        try:
            while piece := self.socket.recv(65536):
                self.received += piece
        except BlockingIOError:
            return self.received.endswith(b"0\r\n\r\n")
        except ConnectionError:
            return True
        return True


def test_m6_streams_count_as_sessions_of_their_holder(cli: Cli) -> None:
    """Many of one, each with an unfinished message, end none of another."""
    cli.env = FUZZY
    cli.configure()
    url = cli.start_gateway()
    quiet, loud = (create_token(cli)["token"] for _ in range(2))
    own = RawStream(url, quiet)
    own.read_until(b"200 OK")
    streams: list[RawStream] = []
    for _ in range(MAX_SESSIONS + 20):
        streams.append(stream := RawStream(url, loud))
        stream.send(b'{"jsonrpc": ')
        stream.read_until(b"200 OK")
    until(lambda: sum(each.has_ended() for each in streams) == 21, "the oldest have ended")
    own.send(INITIALIZE + b"\n")
    own.read_until(b"serverInfo")
    for each in (own, *streams):
        each.socket.close()
    until(lambda: _answers(RawStream(url, loud)), "others have room again")
    assert cli("gateway", "stop").returncode == 0


def _answers(stream: RawStream) -> bool:
    with stream.socket:
        stream.send(INITIALIZE + b"\n")
        stream.read_until(b"serverInfo")
    return True
