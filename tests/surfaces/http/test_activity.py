"""``GET /activity``: what was called, and who may know, at a gateway's door."""

import contextlib
import http.client
import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.postgres_server import content_of
from tests.support import (
    FUZZY,
    Cli,
    Scripted,
    create_token,
    fetch,
    processes,
    stop_all,
    tool,
    until,
)

pytestmark = pytest.mark.both_storages
SECRET = "an argument that is nobody's business"  # noqa: S105 - none
NEEDS_A = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
KEY = "correct-horse-battery"
FAILURE: dict[str, Any] = {"content": [{"type": "text", "text": SECRET}], "isError": True}


class Door:
    """A gateway with three servers, of which one never works."""

    def __init__(self, home: Path, storage: Mapping[str, str]) -> None:
        self.cli = Cli(home, {**FUZZY, "TOOLSCRIPT_CALL_TIMEOUT": "1"}, storage)
        scripted = Scripted(home)
        files = scripted(
            *(tool(name) for name in ("echo", "fails", "refuses", "hang")),
            tool("needs", inputSchema=NEEDS_A),
            results={"fails": FAILURE},
            errors={"refuses": {"code": -32000, "message": SECRET}},
            silent=["hang"],
            env={"FILES_KEY": KEY},
        )
        self.cli.configure(files=files, mail=scripted(tool("send")), dead={"command": "/none"})
        self.url = self.cli.start_gateway()
        self.pid: int = self.cli.record()["pid"]

    def ask(self, token: str = "", **parameters: object) -> tuple[int, Any]:
        return fetch(self.url, "/activity", parameters, headers=_bearer(token))

    def calls(self, token: str = "", **parameters: object) -> list[dict[str, Any]]:
        status, answer = self.ask(token, **parameters)
        assert status == 200, answer
        return answer["calls"]

    def call(self, name: str, arguments: Any, token: str = "", session: str = "") -> int:
        headers = {"Content-Type": "application/json", **_bearer(token), **_session(session)}
        body = json.dumps(arguments).encode()
        return fetch(self.url, f"/tools/{name}", method="POST", headers=headers, body=body)[0]

    def search(self, query: str, session: str, token: str = "", threshold: float = 0) -> list[str]:
        """Returns the ids of the tools that it finds, by default of all."""
        asked = {"q": query, "threshold": threshold, "limit": 9}
        headers = {**_bearer(token), **_session(session)}
        status, answer = fetch(self.url, "/search", asked, headers=headers)
        assert status == 200, answer
        return [hit["toolId"] for hit in answer["results"]]

    def stored(self) -> bytes:
        """What the log has on the disk, or the database has."""
        if database := self.cli.storage.get("TOOLSCRIPT_DATABASE"):
            return content_of(database)
        folder = self.cli.home / ".toolscript" / "activity"
        return b"".join(path.read_bytes() for path in folder.iterdir())


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


def _session(name: str) -> dict[str, str]:
    return {"Toolscript-Session": name} if name else {}


@pytest.fixture
def door(tmp_path: Path, storage: dict[str, str]) -> Generator[Door]:
    door = Door(tmp_path, storage)
    yield door
    stop_all([door.pid])
    assert not processes(str(tmp_path))


def test_a_parameter_that_no_database_takes_is_refused(door: Door) -> None:
    """PostgreSQL has no NUL character in texts."""
    for path in ("/activity", "/search", "/ui/activity", "/graph/related"):
        status, answer = fetch(door.url, path, {"q": "a\0b"})
        assert status == 400, (path, answer)
        assert "NUL" in str(answer)
    assert fetch(door.url, "/tools/files__echo%00")[0] == 400


def test_a_body_with_what_no_database_takes_is_answered(door: Door) -> None:
    """NUL characters and halves of surrogate pairs, in each place of a call and a search."""
    headers = {"Content-Type": "application/json", "Toolscript-Session": "one"}
    body = json.dumps({"query": "X", "name": "X", "tool": "X", "X": "X"})
    call = {"name": "X", "arguments": {"X": "X"}}
    rpc = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    paths = ("/search", "/tools/files__echo", "/tools/files__needs", "/pending/none")
    for text in (r"a\u0000b", r"a\ud800b", r"\udfff"):
        for path, sent in (("/message", rpc), *((path, body) for path in paths)):
            raw = sent.replace("X", text).encode()
            status, answer = fetch(door.url, path, method="POST", headers=headers, body=raw)
            assert status < 500, (path, answer)
    logs = "".join(log.read_text("utf-8") for log in door.cli.home.rglob("*.log"))
    assert "Traceback" not in logs
    assert door.call("files__echo", {}) == 200
    until(door.calls, "calls are recorded all the same")


def test_each_call_is_recorded_with_what_came_of_it(door: Door) -> None:
    """By both doors."""
    assert door.ask() == (200, {"calls": [], "next": None})
    given = {"text": SECRET}
    for name in ("files__echo", "files__fails", "files__refuses", "files__hang", "dead__x"):
        door.call(name, given)
    door.call("files__needs", {"a": SECRET})
    door.call("files__evil%1B[2J", {})
    door.call("nobody__x", {})
    params = {
        "name": "call_destructive_tool",
        "arguments": {"tool": "mail:send", "arguments": given},
    }
    message = json.dumps({"method": "tools/call", "params": params}).encode()
    assert fetch(door.url, "/message", method="POST", body=message)[0] == 200
    found = [(c["tool"], c["server"], c["outcome"], c["who"]) for c in door.calls()]
    assert found[::-1] == [
        ("files__echo", "files", "ok", "anyone"),
        ("files__fails", "files", "tool error", "anyone"),
        ("files__refuses", "files", "refused", "anyone"),
        ("files__hang", "files", "timeout", "anyone"),
        ("dead__x", "dead", "not connected", "anyone"),
        ("files__needs", "files", "invalid arguments", "anyone"),
        ("files__evil[2J", "files", "unknown tool", "anyone"),
        ("nobody__x", "", "unknown tool", "anyone"),
        ("mail__send", "mail", "ok", "anyone"),
    ]
    for pattern in ("mail:*", "mail__*", "*:send"):
        assert [call["tool"] for call in door.calls(tool=pattern)] == ["mail__send"], pattern
    echo = door.calls(tool="files__echo")[0]
    assert echo["argumentBytes"] == len(json.dumps(given, separators=(",", ":")))
    assert echo["resultBytes"] > 10
    assert echo["ms"] > 0
    assert door.calls(outcome="refused")[0]["resultBytes"] is None
    assert door.calls(outcome="timeout")[0]["ms"] > 900


def test_no_search_argument_result_or_error_is_stored(door: Door) -> None:
    assert "files__echo" in door.search(f"echo {SECRET}", "s")
    door.call("files__echo", {"text": SECRET}, session="s")
    for name in ("files__echo", "files__fails", "files__refuses"):
        door.call(name, {"text": SECRET})
    door.call("files__needs", {"a": SECRET})
    assert len(door.cli.json("activity")["calls"]) == 5
    stored = door.stored()
    assert b"files__refuses" in stored
    assert SECRET.encode() not in stored


def test_a_call_that_its_client_gives_up_is_recorded(door: Door) -> None:
    parts = urlsplit(door.url)
    headers = {"Content-Type": "application/json"}
    with contextlib.closing(http.client.HTTPConnection(parts.netloc)) as client:
        client.request("POST", "/tools/files__hang", b"{}", headers)
        with contextlib.suppress(TimeoutError):
            client.sock.settimeout(0.3)
            client.getresponse()
    [call] = until(door.calls, "the call is recorded")
    assert (call["tool"], call["outcome"]) == ("files__hang", "cancelled")


@pytest.mark.files  # they are refused before anything is read
@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": 1001}, {"before": 2**63}, {"outcome": "x"}, {"tool": "a" * 201}],
)
def test_wrong_parameters_are_refused(door: Door, wrong: dict[str, Any]) -> None:
    status, answer = door.ask(**wrong)
    assert (status, answer["type"]) == (400, "RangeError")


def test_each_caller_sees_their_own_calls_and_the_owner_all(door: Door) -> None:
    """A token that grants everything counts as the owner, as everywhere else."""
    door.call("files__echo", {})
    ids: dict[str, str] = {}
    tokens: dict[str, str] = {}
    for name, grant in {
        "one": ["--tool", "files__echo"],
        "two": ["--server", "mail"],
        "all": [],
    }.items():
        made = create_token(door.cli, *grant)
        ids[name], tokens[name] = made["id"], made["token"]
    door.call("files__echo", {}, tokens["one"])
    door.call("files__fails", {}, tokens["one"])
    door.call("files__none", {}, tokens["one"])
    door.call("mail__send", {}, tokens["one"])
    door.call("nobody__send", {}, tokens["one"])
    door.call("mail__send", {}, tokens["two"])
    assert door.cli("call", "files__echo").returncode == 0
    own = door.calls(tokens["one"])
    assert {call["who"] for call in own} == {ids["one"]}
    assert [(call["tool"], call["server"]) for call in own] == [
        ("nobody__send", ""),
        ("mail__send", ""),
        ("files__none", "files"),
        ("files__fails", "files"),
        ("files__echo", "files"),
    ], "what a caller may not know of is as if it were not there"
    assert [call["tool"] for call in door.calls(tokens["two"])] == ["mail__send"]
    for who in ("owner", "anyone", ids["two"]):
        assert door.ask(tokens["one"], who=who)[1] == {"calls": [], "next": None}
    assert len(door.calls(tokens["one"], who=ids["one"])) == len(own)
    assert "refusals" not in door.ask(tokens["one"])[1]
    assert door.ask()[0] == 401
    everybody = {"anyone", "owner", ids["one"], ids["two"]}
    for calls in (door.calls(tokens["all"]), door.cli.json("activity")["calls"]):
        assert {call["who"] for call in calls} == everybody
    assert [call["tool"] for call in door.calls(tokens["all"], who="owner")] == ["files__echo"]


@pytest.mark.files  # they are counted in memory
def test_refused_callers_are_counted_for_the_owner(door: Door) -> None:
    before = door.cli.json("activity")
    assert before["refusals"] == {"total": 0, "lastTime": "", "lastAddress": ""}
    assert before["dropped"] == 0
    create_token(door.cli)
    for number in range(3):
        assert door.call("files__echo", {}, f"ts_{number}") == 401
    refusals = door.cli.json("activity")["refusals"]
    assert (refusals["total"], refusals["lastAddress"]) == (3, "127.0.0.1")
    assert refusals["lastTime"]
    assert door.cli.json("activity")["calls"] == [], "a caller who is refused has called nothing"
