"""M8 at the doors of a running gateway: HTTP, MCP, the command line, its log, its snapshot."""

import http.server
import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.redaction_corpus import WORD, leaked, spellings
from tests.postgres_server import content_of
from tests.support import FUZZY, Cli, Scripted, fetch, in_database, post, tool, until
from toolscript.gateway.base import LAST_WORDS
from toolscript.gateway.process.stderr_log import StderrLog
from toolscript.text.redaction import MAX_CHARS, redact

TOLD = f"unknown option {WORD} (token {WORD!r})"


class _Echo(http.server.BaseHTTPRequestHandler):
    """Refuses everything with the headers that it was sent."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(length))
        message = f"refused: {dict(self.headers)}"
        error = {"code": -32000, "message": message, "data": dict(self.headers)}
        body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "error": error}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called
        del format, args


@contextmanager
def echo() -> Generator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    with telling_gateway(tmp_path_factory.mktemp("doors"), {}) as cli:
        yield cli


@contextmanager
def telling_gateway(home: Path, storage: Mapping[str, str]) -> Generator[Cli]:
    """A gateway over servers that tell their secrets, in the places where an error comes from."""
    scripted = Scripted(home)

    def telling(name: str, will: dict[str, Any], *args: str) -> dict[str, Any]:
        """What it does stands in a file, so that its arguments hold the secret and no more."""
        fate = home / f"{name}.json"
        fate.write_text(json.dumps(will), "utf-8")
        entry = scripted(fate=str(fate))
        return {**entry, "args": [*entry["args"], *args]}

    lines = "\n".join(spellings(WORD).values())
    error = {"code": -32050, "message": TOLD, "data": {"env": {"deep": [WORD]}, "n": 1}}
    cli = Cli(home, FUZZY, storage)
    with echo() as url:
        cli.configure(
            dies=telling("dies", {"stderr": TOLD, "exit": 1}, "--flavour", WORD),
            noisy=telling("noisy", {"stdout": f"{lines}\n", "stderr": lines, "exit": 1}, WORD),
            fails=telling("fails", {"list_error": lines}, f"--x={WORD}"),
            refuses=telling("refuses", {"tools": [tool("t")], "errors": {"t": error}}, WORD),
            odd=telling("odd", {"name": WORD, "tools": [{"name": WORD}, tool("u")]}, "-p", WORD),
            remote={"url": url, "headers": {"X-Flavour": WORD}, "type": "http"},
            port={"url": f"http://user:{WORD}/{WORD}@127.0.0.1/mcp"},
            wrong={"command": "x", "args": f"--token {WORD}"},
            gone={"command": f"/no/{WORD}", "env": {"FLAVOUR": WORD}},
        )
        with cli:
            cli.start_gateway()
            yield cli


def servers(url: str, **headers: str) -> dict[str, dict[str, Any]]:
    shown = fetch(url, "/servers", headers=headers)[1]["servers"]
    return {server["name"]: server for server in shown}


def call(url: str, name: str) -> dict[str, Any]:
    params: dict[str, Any] = {"name": "call_destructive_tool", "arguments": {"tool": name}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_m8_no_door_shows_a_secret(cli: Cli) -> None:
    url, key = cli.record()["url"], cli.record()["key"]
    owner = {"Authorization": f"Bearer {key}"}
    shown: dict[str, Any] = {
        "/servers": json.dumps(servers(url, **owner)),
        "/health": fetch(url, "/health", headers=owner)[1],
        "/search": fetch(url, "/search", {"q": "t", "why": "dies__t"}, headers=owner)[1],
        "/tools": post(url, "/tools/refuses__t", {})[1],
        "/tools, gone": post(url, "/tools/dies__t", {})[1],
        "/message": post(url, "/message", call(url, "refuses__t"))[1],
        "list-servers": cli("list-servers", "--output", "json").stdout,
        "doctor": cli("doctor").stdout,
        "--why": cli("search", "t", "--why", "fails__t").stdout,
        "call": cli("call", "refuses__t").stderr,
        "log": "".join(p.read_text("utf-8") for p in cli.home.rglob("gateway-*.log")),
        "snapshot": "".join(p.read_text("utf-8") for p in cli.home.rglob("catalogue-*.json")),
    }
    for door, text in shown.items():
        assert text, door
        assert not leaked(WORD, str(text)), (door, text)
    states = servers(url, **owner)
    assert {name for name, each in states.items() if "***" in str(each)} >= {
        *("dies", "noisy", "fails", "odd", "remote", "gone")
    }
    assert "args is a string" in states["wrong"]["error"]
    assert "%2F" in states["port"]["error"]
    data = shown["/message"]["error"]["data"]
    assert data == {"env": {"deep": ["***"]}, "n": 1}


def test_m8_no_secret_is_in_the_database(tmp_path: Path, database_url: str) -> None:
    """Though what servers say when they fail is."""
    with telling_gateway(tmp_path, in_database(database_url)) as cli:
        url = cli.record()["url"]
        post(url, "/tools/refuses__t", {})
        cli("list-servers", "--refresh")
        stopped = cli("gateway", "stop")
        assert stopped.returncode == 0, stopped.stderr
    stored = content_of(database_url).decode(errors="replace")
    assert "unknown option ***" in stored
    assert "refuses__t" in stored
    assert not leaked(WORD, stored)


def test_m8_a_servers_last_words_are_for_its_owner(cli: Cli) -> None:
    """Not for other programs of this machine, nor for a token of some servers or tools."""
    url, key = cli.record()["url"], cli.record()["key"]
    owner = servers(url, Authorization=f"Bearer {key}")["dies"]["error"]
    reason, _, words = owner.partition(LAST_WORDS)
    assert words == "unknown option *** (token '***')"
    assert LAST_WORDS not in str(post(url, "/tools/dies__t", {}))
    assert servers(url)["dies"]["error"] == reason
    assert words not in str(fetch(url, "/search", {"q": "t", "why": "dies__t"}))
    made = cli("token", "create", "--server", "dies").stdout.strip()
    try:
        bounded = {"Authorization": f"Bearer {made}"}
        assert servers(url, **bounded)["dies"]["error"] == reason
        why = fetch(url, "/search", {"q": "t", "why": "dies__t"}, headers=bounded)[1]
        assert words not in str(why)
        full = cli("token", "create").stdout.strip()
        assert servers(url, Authorization=f"Bearer {full}")["dies"]["error"] == owner
    finally:
        for token in cli.json("token", "list")["tokens"]:
            cli("token", "revoke", token["id"])


def test_m8_a_line_that_begins_before_the_tail_is_not_shown_with_half_a_secret(
    tmp_path: Path,
) -> None:
    log = StderrLog(tmp_path / "log")
    for size in (8192, 8188, 8170):
        with log.opened():
            log.write(WORD.encode() + b"x" * size)
            assert log.last_line
            assert not leaked(WORD, redact(log.last_line, [WORD]))
    with log.opened():
        log.write(WORD.encode() + b" " * 9000 + b"\nthe end\n")
        assert log.last_line == "the end"


def test_m8_a_text_that_is_cut_does_not_end_with_half_a_secret() -> None:
    for cut in range(1, len(WORD)):
        shown = redact("x" * (MAX_CHARS - cut) + WORD + "y" * 100, [WORD])
        assert "hunter" not in shown[-60:]
        assert len(shown) <= MAX_CHARS


BOMBS = [
    *("password=", 'password="', "key_", "://", "://a@", "-----BEGIN PRIVATE KEY-----", "eyJ"),
    *("Bearer ", "cookie: ", "sk-", '"', " ", "token_-", "http://a:b/", "\\", "secret secret"),
]


@pytest.mark.parametrize("piece", BOMBS)
def test_m8_hostile_text_is_looked_at_in_a_moment(piece: str) -> None:
    """However long it is, and whatever it repeats."""
    text = piece * (10**7 // len(piece))
    shown = until(lambda: redact(text, [WORD]), "it does not hang", 20)
    assert len(shown) <= 2 * MAX_CHARS
