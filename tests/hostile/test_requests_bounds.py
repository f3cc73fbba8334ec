"""Requests that are too large, too slow or too many: rows M4 and M5."""

import contextlib
import json
import resource
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from tests.support import FUZZY, READ_FILE, Cli, Scripted, fetch, stop_all, until
from toolscript.surfaces.server.connection_limits import Connections, protocol_factory

MIB = 1024 * 1024
POST_JSON = (
    b"POST /tools/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
)
HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    home = tmp_path_factory.mktemp("bounds")
    cli = Cli(home, FUZZY)
    cli.configure(files=Scripted(home)(READ_FILE))
    try:
        yield cli.start_gateway()
    finally:
        stop_all(json.loads(path.read_text("utf-8"))["pid"] for path in cli.records)


@contextmanager
def connected(url: str) -> Generator[socket.socket]:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), 30) as made:
        yield made


def flood(url: str, *pieces: bytes, total: int) -> tuple[int, bytes]:
    """Send the first pieces, then the last again and again; how much was taken, the answer."""
    *first, last = pieces
    with connected(url) as made:
        made.sendall(b"".join(first))
        sent = 0
        with contextlib.suppress(OSError):  # it hangs up in the middle
            while sent < total:
                made.sendall(last)
                sent += len(last)
        answer = b""
        with contextlib.suppress(OSError):
            while data := made.recv(65536):
                answer += data
    return sent, answer


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * 4096 / MIB


# M4

FLOODS = {
    "many headers": (HEAD, b"X-A: b\r\n" * 8192),
    "one header": (HEAD + b"X-A: ", b"a" * 65536),
    "one name": (HEAD, b"a" * 65536),
    "request line": (b"GET /", b"a" * 65536),
    "blank lines": (b"\r\n" * 32768,),
    "trailers": (POST_JSON + b"0\r\n", b"X-A: b\r\n" * 8192),
    "requests at once": (HEAD + b"\r\n",),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_m4_a_flood_before_the_body_is_cut(url: str, kind: str) -> None:
    """Before any token is looked at; memory does not follow it."""
    pid = fetch(url, "/health")[1]["pid"]
    before = resident_mib(pid)
    sent, _ = flood(url, *FLOODS[kind], total=32 * MIB)
    assert sent < 32 * MIB
    assert resident_mib(pid) < before + 16
    assert fetch(url, "/health")[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (HEAD + b"X-A: " + b"a" * 65_000 + b"\r\n\r\n", 200),
        (HEAD + b"X-A: " + b"a" * 66_000 + b"\r\n\r\n", 431),
        (HEAD + b"X-A: b\r\n" * 127 + b"\r\n", 200),
        (HEAD + b"X-A: b\r\n" * 128 + b"\r\n", 431),
    ],
)
def test_m4_the_bound_is_where_it_is_said_to_be(url: str, head: bytes, status: int) -> None:
    with connected(url) as made:
        made.sendall(head)
        assert made.recv(65536).startswith(b"HTTP/1.1 %d " % status)


# M5


@contextmanager
def quick_server(room: Connections) -> Generator[tuple[str, set[Any]]]:
    """A server that reads bodies and answers with them, or 16 MiB; its connections."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with contextlib.suppress(ClientDisconnect):
            body = await Request(scope, receive).body()
            await Response(body or b"x" * 16 * MIB)(scope, receive, send)

    config = uvicorn.Config(
        app, port=0, lifespan="off", log_config=None, access_log=False, http=protocol_factory(room)
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server listens")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", server.server_state.connections
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(("number", "answered"), [(5, True), (6, False)])
def test_m4_requests_that_come_before_their_turn_are_bounded(
    number: int,
    answered: bool,  # noqa: FBT001 - of the table
) -> None:
    with quick_server(Connections()) as (url, _), connected(url) as made:
        made.sendall((HEAD + b"\r\n") * number)
        received = 0
        with contextlib.suppress(ConnectionResetError):
            while received < 16 * MIB and (data := made.recv(MIB)):
                received += len(data)
    assert (received >= 16 * MIB) is answered


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", HEAD, HEAD + b"\r\n" + HEAD, b"\r\n", POST_JSON, POST_JSON + b"0\r\nX-A: b\r\n"],
)
def test_m5_a_request_that_does_not_come_to_an_end_is_ended(sent: bytes) -> None:
    """In its head, its body or its trailers, or before it begins."""
    room = Connections(head_s=0.1, body_s=0.1)
    with quick_server(room) as (url, connections), connected(url) as made:
        made.sendall(sent)
        received = b""
        while data := made.recv(MIB):
            received += data
        until(lambda: not connections and not room.waiting, "nothing is left of it")
        if sent.startswith(HEAD + b"\r\n"):
            assert len(received) > 16 * MIB  # the first request's answer is not harmed
        else:
            assert received.startswith(b"HTTP/1.1 408 ")


def test_m5_an_answer_that_is_not_taken_is_dropped() -> None:
    """It lies in memory until then."""
    room = Connections(stall_s=0.1)
    for more in (b"", b"Connection: close\r\n"):
        with quick_server(room) as (url, connections), connected(url) as made:
            made.sendall(HEAD + more + b"\r\n")
            first = made.recv(1)
            until(lambda: not connections, "it is cut")
            received = len(first)
            while data := made.recv(MIB):
                received += len(data)
            assert received < 16 * MIB


def test_m5_those_that_wait_longest_make_room() -> None:
    """Half requests keep nobody out; what is under way is not cut."""
    room = Connections(limit=4)
    with quick_server(room) as (url, _), ExitStack() as stack:
        busy = stack.enter_context(connected(url))
        busy.sendall(POST_JSON)
        until(lambda: not room.waiting, "it is under way")
        slow = [stack.enter_context(connected(url)) for _ in range(8)]
        for each in slow:
            each.sendall(HEAD)
        with connected(url) as made:
            made.sendall(HEAD + b"Connection: close\r\n\r\n")
            assert made.recv(65536).startswith(b"HTTP/1.1 200 ")
        busy.sendall(b"0\r\n\r\n")
        assert b"{}" in busy.recv(65536)


def test_m5_beyond_the_limit_the_longest_wait_is_cut() -> None:
    room = Connections(limit=4)
    with quick_server(room) as (url, connections), ExitStack() as stack:
        slow = [stack.enter_context(connected(url)) for _ in range(8)]
        until(lambda: len(connections) == 4, "four are left", 10)
        for each in slow[:4]:
            with contextlib.suppress(ConnectionResetError):
                assert each.recv(1) == b""


def test_m5_the_deadlines_are_those_that_are_documented() -> None:
    room = Connections()
    assert (room.head_s, room.body_s, room.stall_s) == (10, 60, 30)


def test_m5_half_requests_of_all_descriptors_keep_nobody_out(cli: Cli, scripted: Scripted) -> None:
    """With 256 descriptors, and as many half requests."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    limited = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh"]
    command = [*limited, *cli.command("gateway", "start", "--port", "0")]
    subprocess.run(command, env=cli.environment(), cwd=cli.home, check=True, timeout=60)
    url = cli.record()["url"]
    with ExitStack() as stack:
        for _ in range(256):
            stack.enter_context(connected(url)).sendall(HEAD)
        assert fetch(url, "/tools")[0] == 200
        assert cli("gateway", "status").returncode == 0
    [log] = cli.home.rglob("gateway-*.log")
    assert "out of system resource" not in log.read_text("utf-8")


def test_m5_the_gateway_gives_itself_descriptors(url: str) -> None:
    pid = fetch(url, "/health")[1]["pid"]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert soft >= min(hard, 4096)


# M4, bodies


def post_raw(url: str, path: str, body: bytes) -> int:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return fetch(url, path, method="POST", headers=headers, body=body)[0]


@pytest.mark.parametrize("path", ["/message", "/tools/x__y", "/mcp"])
@pytest.mark.parametrize("bracket", [b"[],", b'{"a":[]},'])
def test_m4_a_body_of_brackets_is_not_read(url: str, path: str, bracket: bytes) -> None:
    """A megabyte of them takes a second of the event loop, and a hundred times its memory."""
    assert post_raw(url, path, b'{"a":[' + bracket * 200_001 + b"1]}") == 400


def test_m4_a_long_text_is_read(url: str) -> None:
    assert post_raw(url, "/message", b'{"method":"ping","id":"' + b"x" * 3 * MIB + b'"}') == 200


def test_m4_all_bodies_together_are_bounded(url: str) -> None:
    """Bodies that do not come to an end take 64 MiB; a small one more is told to try again."""
    pid = fetch(url, "/health")[1]["pid"]
    before = resident_mib(pid)
    begun = POST_JSON.replace(b"2\r\n{}\r\n", b"3f0000\r\n" + b" " * 0x3F0000 + b"\r\n")
    with ExitStack() as stack:

        def full() -> bool:
            """Whether a small body is refused; where one that is under way was, one more begins."""
            with contextlib.suppress(OSError):  # it is refused itself
                stack.enter_context(connected(url)).sendall(begun)
            return post_raw(url, "/message", b'{"method":"ping"}' + b" " * MIB) == 503

        for _ in range(23):
            with contextlib.suppress(OSError):
                stack.enter_context(connected(url)).sendall(begun)
        until(full, "full")
        assert resident_mib(pid) < before + 200
        assert fetch(url, "/health")[0] == 200
    until(lambda: post_raw(url, "/message", b'{"method":"ping"}') == 200, "there is room again")
