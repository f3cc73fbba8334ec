"""Requests that are too large or too many: rows M4 and M5."""

import contextlib
import resource
import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import FEW_DESCRIPTORS, FUZZY, READ_FILE, Cli, Scripted, fetch, until

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
    with cli:
        yield cli.start_gateway()


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


def test_m4_a_head_has_the_room_that_is_promised(url: str) -> None:
    with connected(url) as made:
        made.sendall(HEAD + b"X-A: " + b"a" * 65_000 + b"\r\n\r\n")
        assert made.recv(65536).startswith(b"HTTP/1.1 200 ")


# M5


def test_m5_connections_beyond_the_limit_are_refused_until_there_is_room(
    cli: Cli, scripted: Scripted
) -> None:
    """With 256 descriptors, half of which stay for servers and files."""
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE))
    cli.behind(FEW_DESCRIPTORS, "gateway", "start", "--open", "--port", "0")
    url = cli.record()["url"]
    with ExitStack() as stack:
        for _ in range(128):
            stack.enter_context(connected(url)).sendall(HEAD)
        with connected(url) as made:
            made.sendall(HEAD + b"\r\n")
            assert made.recv(65536).startswith(b"HTTP/1.1 503 ")
    until(lambda: fetch(url, "/tools")[0] == 200, "there is room again")
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
@pytest.mark.parametrize("bracket", [b"[],", b'{"a":[]},', b"1,"])
def test_m4_a_body_of_many_values_is_not_read(url: str, path: str, bracket: bytes) -> None:
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
            return post_raw(url, "/message", b'{"method":"ping"}' + b" " * MIB) == 429

        for _ in range(23):
            with contextlib.suppress(OSError):
                stack.enter_context(connected(url)).sendall(begun)
        until(full, "full")
        assert resident_mib(pid) < before + 200
        assert fetch(url, "/health")[0] == 200
    until(lambda: post_raw(url, "/message", b'{"method":"ping"}') == 200, "there is room again")
