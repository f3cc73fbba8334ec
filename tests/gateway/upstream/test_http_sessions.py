"""Sessions over HTTP that a server forgets: opened again, and the request sent once more."""

import http.server
import json
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.upstream.test_transports import listening
from tests.support import READ_FILE, Running, running, until, write_config
from toolscript.errors import NotConnectedError, RefusedError
from toolscript.gateway.base import SILENT_CALLER

LEGACY = {"type": "http", "protocol": "legacy"}


class Forgetful(http.server.ThreadingHTTPServer):
    """A server with sessions that it can be told to forget, and what it then answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tool: dict[str, Any] = dict(READ_FILE)
        self.status, self.message = 404, "Session not found"
        self.sessions: set[str] = set()
        self.opened = 0
        self.calls: list[str] = []
        self.forgets_each = False
        self.is_bad_request = False
        """Whether it answers calls with the status, though it knows the session."""
        self.form: Callable[[dict[str, Any]], str] = json.dumps
        self.may_open, self.may_answer = threading.Event(), threading.Event()
        self.may_open.set()
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def forget(self, status: int = 404, message: str = "Session not found") -> None:
        """Forget every session; without a message, answer such requests without a body."""
        self.status, self.message = status, message
        self.sessions.clear()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers in JSON, by what its server says."""

    server: Forgetful  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is there
        """Says nothing."""

    def reply(self, status: int, body: dict[str, Any] | None = None, session: str = "") -> None:
        written = json.dumps if body is None or status != 200 else self.server.form
        data = b"" if body is None else written(body).encode()
        is_event = b"data:" in data[:9]
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if is_event else "application/json")
        self.send_header("content-length", str(len(data)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self) -> None:
        error = {"code": -32600, "message": self.server.message}
        body = {"jsonrpc": "2.0", "id": None, "error": error}
        self.reply(self.server.status, body if self.server.message else None)

    def do_GET(self) -> None:
        self.reply(405)

    do_DELETE = do_GET  # noqa: N815 - as http.server calls it

    def do_POST(self) -> None:
        server = self.server
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, session = asked["method"], self.headers.get("mcp-session-id", "")
        if "id" not in asked:
            return self.reply(202)
        result: dict[str, Any] = {}
        if method == "initialize":
            server.may_open.wait()
            server.opened += 1
            session = f"session-{server.opened}"
            server.sessions.add(session)
            result = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "forgetful", "version": "1"},
            }
        elif session not in server.sessions:
            return self.refuse()
        elif method == "tools/list":
            result = {"tools": [server.tool]}
        elif method == "tools/call":
            server.calls.append(asked["params"]["arguments"]["path"])
            if server.is_bad_request:
                return self.refuse()
            if server.forgets_each:
                server.sessions.discard(session)
            server.may_answer.wait()
            result = {"content": [{"type": "text", "text": server.calls[-1]}]}
        return self.reply(200, {"jsonrpc": "2.0", "id": asked["id"], "result": result}, session)


@pytest.fixture
def server() -> Generator[Forgetful]:
    with Forgetful() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.may_open.set()
            server.may_answer.set()
            server.shutdown()
            thread.join()


def nameless(message: dict[str, Any]) -> dict[str, Any]:
    """The message without the version of the protocol."""
    return {key: value for key, value in message.items() if key != "jsonrpc"}


FORMS: dict[str, Callable[[dict[str, Any]], str]] = {
    "bom": lambda message: "\ufeff" + json.dumps(message),
    "no version": lambda message: json.dumps(nameless(message)),
    "no error": lambda message: json.dumps({**message, "error": None}),
    "bom in an event": lambda message: f"data: \ufeff{json.dumps(message)}\n\n",
    "bom before an event": lambda message: f"\ufeffdata: {json.dumps(message)}\n\n",
    "lines of an event": lambda message: (
        "data:" + json.dumps(nameless(message), indent=1).replace("\n", "\ndata: ") + "\n\n"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_that_breaks_the_protocol_is_read(
    tmp_path: Path, server: Forgetful, form: str
) -> None:
    """upstream:isolation: a byte order mark, no ``jsonrpc``, ``error`` beside the result."""
    server.form = FORMS[form]
    with connected(tmp_path, server) as now:
        assert read(now, "again") == "again"


@contextmanager
def connected(tmp_path: Path, server: Forgetful) -> Generator[Running]:
    config = write_config(tmp_path / "servers.json", {"one": LEGACY | {"url": server.url}})
    with running(config) as now:
        now.wait_for("one", "ready")
        now.settle()
        assert read(now, "first") == "first"
        yield now


def begin(now: Running, path: str) -> "Future[dict[str, Any]]":
    arguments = {"path": path}
    call = now.app.call
    return now.portal.start_task_soon(call, "one__read_file", arguments, SILENT_CALLER)


def read(now: Running, path: str) -> str:
    return begin(now, path).result(30)["content"][0]["text"]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "Session not found"),
        (404, ""),
        (400, "Bad Request: No valid session ID provided"),
        (400, ""),
        (410, ""),
        (500, "session not found"),
    ],
)
def test_a_forgotten_session_is_opened_again(
    tmp_path: Path, server: Forgetful, status: int, message: str
) -> None:
    """upstream:isolation: the caller sees nothing of it, and the call is made once."""
    with connected(tmp_path, server) as now:
        server.forget(status, message)
        assert read(now, "again") == "again"
        assert (server.opened, server.calls) == (2, ["first", "again"])
        assert now.wait_for("one", "ready").tools == 1


def test_it_is_not_ready_while_its_session_is_opened(tmp_path: Path, server: Forgetful) -> None:
    """upstream:isolation: the state says so, and why; the call waits."""
    with connected(tmp_path, server) as now:
        server.may_open.clear()
        server.forget()
        waiting = begin(now, "again")
        assert now.wait_for("one", "connecting").error == "answered HTTP 404"
        server.may_open.set()
        assert waiting.result(30)["content"][0]["text"] == "again"


@pytest.mark.parametrize("status", [404, 400])
def test_calls_at_once_share_one_new_session(
    tmp_path: Path, server: Forgetful, status: int
) -> None:
    """upstream:isolation: no storm."""
    paths = [str(n) for n in range(12)]
    with connected(tmp_path, server) as now, ThreadPoolExecutor(12) as pool:
        server.forget(status)
        begun = [pool.submit(read, now, path) for path in paths]
        assert [each.result(30) for each in begun] == paths
        assert (server.opened, len(server.calls)) == (2, 13)


def test_a_server_that_ends_its_session_after_each_call(tmp_path: Path, server: Forgetful) -> None:
    """upstream:isolation: each call works, in a session of its own."""
    server.forgets_each = True
    with connected(tmp_path, server) as now:
        assert [read(now, str(n)) for n in range(5)] == list("01234")
        assert server.opened == 6


def test_a_call_under_way_is_answered_in_the_old_session(tmp_path: Path, server: Forgetful) -> None:
    """upstream:isolation: the new session waits for it."""
    with connected(tmp_path, server) as now:
        server.may_answer.clear()
        slow = begin(now, "slow")
        until(lambda: "slow" in server.calls, "the call has arrived")
        server.forget()
        other = begin(now, "other")
        now.wait_for("one", "connecting")
        server.may_answer.set()
        assert slow.result(30)["content"][0]["text"] == "slow"
        assert other.result(30)["content"][0]["text"] == "other"


@pytest.mark.parametrize("status", [404, 400, 500])
def test_a_refusal_of_the_request_alone_is_passed_on(
    tmp_path: Path, server: Forgetful, status: int
) -> None:
    """upstream:isolation: the server still lists its tools, so the session goes on."""
    with connected(tmp_path, server) as now:
        server.status, server.message, server.is_bad_request = status, "the path is bad", True
        with pytest.raises(RefusedError, match="the path is bad"):
            read(now, "bad")
        server.is_bad_request = False
        assert read(now, "good") == "good"
        assert (server.opened, server.calls) == (1, ["first", "bad", "good"])


@pytest.mark.parametrize("hints", [{"readOnlyHint": True}, {"destructiveHint": True}, {}])
def test_a_server_error_is_repeated_only_for_a_tool_that_reads(
    tmp_path: Path, server: Forgetful, hints: dict[str, bool]
) -> None:
    """upstream:isolation: the server may have executed the call before it failed."""
    server.tool["annotations"] = hints
    with connected(tmp_path, server) as now:
        server.forget(500, "")
        if "readOnlyHint" in hints:
            assert read(now, "again") == "again"
        else:
            with pytest.raises(NotConnectedError, match="answered HTTP 500"):
                read(now, "again")
        assert read(now, "later") == "later"


def test_a_server_that_is_restarted_under_calls(tmp_path: Path) -> None:
    """upstream:isolation: with a server of the SDK, no call fails, and none is executed twice.

    The server ends between two calls, since it does not answer those that it is executing.
    """
    calls = tmp_path / "calls"
    environ = {"CALLS": str(calls)}
    ended, calling = threading.Event(), threading.Lock()
    made: list[str] = []

    def work() -> None:
        while not ended.is_set():
            with calling:
                made.append(read(now, str(len(made))))
            time.sleep(0.01)  # else nobody else gets the lock

    with ThreadPoolExecutor(1) as pool:
        first = listening("http", env=environ)
        url, process = first.__enter__()
        port = int(url.split(":")[2].split("/")[0])
        config = write_config(tmp_path / "servers.json", {"one": LEGACY | {"url": url}})
        with running(config) as now:
            now.wait_for("one", "ready")
            now.settle()
            working = pool.submit(work)
            for _ in range(3):
                count = len(made)
                until(lambda n=count: len(made) > n + 3 or working.done(), "calls are made")
                with calling:
                    process.kill()
                    process.wait()
                first.__exit__(None, None, None)
                first = listening("http", port, environ)
                _, process = first.__enter__()
            count = len(made)
            until(lambda: len(made) > count + 3 or working.done(), "calls are made")
            ended.set()
            working.result(30)
        first.__exit__(None, None, None)
    assert calls.read_text("utf-8").split() == made
