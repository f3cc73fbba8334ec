"""Several gateways behind one address, and one that is restarted: sessions go on."""

import json
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.clients.driver import LISTENING
from tests.round_robin import round_robin
from tests.support import (
    FUZZY,
    PATIENCE_S,
    READ_FILE,
    WRITES,
    Cli,
    Scripted,
    in_database,
    stop_all,
    tool,
    until,
    until_known,
)

KEY, NEXT_KEY = "a" * 32, "b" * 32
SESSIONS = 2
"""How many sessions each client opens; each of them sends five or six requests."""
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
VERSION = "2025-06-18"


@dataclass(frozen=True)
class Replica:
    """One gateway of several."""

    cli: Cli
    url: str


class Replicas:
    """Gateways of the same servers, each with a data directory of its own."""

    def __init__(self, home: Path, storage: Mapping[str, str]) -> None:
        self._home, self._storage = home, storage
        self.scripted = Scripted(home)
        self.calls = home / "calls"
        self.started: list[Replica] = []

    def start(self, key: str | None, more: dict[str, Any] | None = None, **env: str) -> Replica:
        """Another gateway; ``more`` are further members of its server's script."""
        home = self._home / f"gateway-{len(self.started)}"
        home.mkdir()
        secret = {"TOOLSCRIPT_SECRET_KEY": key} if key else {}
        cli = Cli(home, FUZZY | secret | env, self._storage)
        write = tool("write_file", "Write a file", **WRITES)
        delete = tool("delete_file", "Delete a file for ever")
        files = self.scripted(READ_FILE, write, delete, calls=str(self.calls))
        cli.configure(files=files | (more or {}))
        self.started.append(Replica(cli, cli.start_gateway()))
        return self.started[-1]


@pytest.fixture
def replicas(tmp_path: Path, no_process_left: None, storage: dict[str, str]) -> Generator[Replicas]:
    made = Replicas(tmp_path, storage)
    yield made
    stop_all(replica.cli.record()["pid"] for replica in made.started if replica.cli.records)


class Wire:
    """A client of an older protocol that shows what is on the wire."""

    def __init__(self, url: str, path: str = "/mcp", token: str = "") -> None:
        self.url, self.path, self.token = url, path, token
        self.session = ""

    def send(self, method: str, body: Any = None, url: str = "") -> tuple[int, Any]:
        """The status, and the message of the answer."""
        parts = urlsplit(url or self.url)
        headers = ACCEPT | {"MCP-Protocol-Version": VERSION} if self.session else ACCEPT
        headers = headers | ({"Mcp-Session-Id": self.session} if self.session else {})
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, self.path, data, headers)
            response = connection.getresponse()
            if response.status == 200 and method == "POST":
                self.session = response.headers.get("mcp-session-id", self.session)
            if method == "GET" and response.status == 200:
                return response.status, None  # a stream, which does not end
            text = response.read().decode()
            lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
            return response.status, json.loads(lines[-1] if lines else text or "null")
        finally:
            connection.close()

    def ask(self, method: str, url: str = "", /, **params: Any) -> tuple[int, Any]:
        """Send a request."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.send("POST", body, url)

    def open(self, **capabilities: Any) -> "Wire":
        """Open a session."""
        client = {"name": "t", "version": "1"}
        asked = {"protocolVersion": VERSION, "capabilities": capabilities, "clientInfo": client}
        status, _ = self.ask("initialize", **asked)
        assert status == 200
        assert self.session
        started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.send("POST", started)[0] == 202
        return self

    def call(self, name: str, url: str = "", /, **arguments: Any) -> tuple[int, Any]:
        """Call one of our tools."""
        return self.ask("tools/call", url, name=name, arguments=arguments)


def text(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


def session_of(client: Any) -> None:
    """What a client does in a session: list, search, call."""
    assert "search_tools" in client.tools()
    found = client.call("search_tools", query="read_file", detail=True)
    assert not found.get("isError"), found
    assert "files:read_file" in found["content"][0]["text"]
    called = client.call("call_tool", tool="files:write_file", arguments={"a": 1})
    assert json.loads(called["content"][0]["text"])["arguments"] == {"a": 1}


@pytest.mark.servers
@pytest.mark.requirement("mcp:transports")
def test_every_client_is_served_by_two_gateways_in_turn(replicas: Replicas) -> None:
    """mcp:transports: of the older protocols and of the newest."""
    one, two = replicas.start(KEY), replicas.start(KEY)
    with round_robin(one.url, two.url) as (url, proxy):
        for name, connect in LISTENING.items():
            for _ in range(SESSIONS):
                with connect({"url": f"{url}/mcp"}, one.cli.environment()) as client:
                    session_of(client)
            assert {gateway for gateway, _, _ in proxy.answers} == {one.url, two.url}, name
            proxy.answers.clear()


def test_gateways_with_keys_of_their_own_do_not_share_sessions(replicas: Replicas) -> None:
    """What the test above is worth: without a key in common its clients fail."""
    one, two = replicas.start(KEY), replicas.start(NEXT_KEY)
    wire = Wire(one.url).open()
    assert wire.ask("tools/list")[0] == 200
    assert wire.ask("tools/list", two.url)[0] == 404


def test_while_the_key_changes_both_count(replicas: Replicas) -> None:
    old = replicas.start(KEY)
    new = replicas.start(NEXT_KEY, TOOLSCRIPT_SECRET_KEY_PREVIOUS=KEY)
    assert Wire(old.url).open().ask("tools/list", new.url)[0] == 200
    assert Wire(new.url).open().ask("tools/list", old.url)[0] == 404


def test_a_restart_ends_no_session(replicas: Replicas) -> None:
    """The key is kept in a file that only the owner may read."""
    replica = replicas.start(None)
    wire = Wire(replica.url).open()
    assert wire.call("search_tools", query="read_file")[0] == 200
    [key] = replica.cli.home.rglob("session-*.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text() not in wire.session
    assert replica.cli("gateway", "stop").returncode == 0
    url = replica.cli.start_gateway()
    status, answer = wire.call("search_tools", url, query="read_file")
    assert status == 200
    assert "files__read_file" in text(answer)
    key.unlink()  # what is lost is made anew, and costs the open sessions
    assert replica.cli("gateway", "stop").returncode == 0
    assert wire.ask("tools/list", replica.cli.start_gateway())[0] == 404


def test_where_no_key_can_be_kept_it_serves_all_the_same(replicas: Replicas) -> None:
    replica = replicas.start(KEY)
    assert replica.cli("gateway", "stop").returncode == 0
    (replica.cli.home / ".toolscript" / "keys").write_text("no folder", "utf-8")
    del replica.cli.env["TOOLSCRIPT_SECRET_KEY"]
    wire = Wire(replica.cli.start_gateway()).open()
    assert wire.ask("tools/list")[0] == 200


@pytest.mark.both_storages
def test_an_id_is_its_holders_alone_and_cannot_be_made_up(replicas: Replicas) -> None:
    one, two = replicas.start(KEY), replicas.start(KEY)
    tokens = [one.cli("token", "create").stdout.strip() for _ in range(2)]
    if not one.cli.storage:
        copy_tokens(one, two)
    for each in (one, two):
        until_known(each.cli, tokens[1])
    wire = Wire(one.url, token=tokens[0]).open()
    assert wire.ask("tools/list", two.url)[0] == 200
    other = Wire(two.url, token=tokens[1])
    other.session = wire.session
    assert other.ask("tools/list")[0] == 404
    assert other.ask("tools/list", one.url)[0] == 404
    nobody = Wire(two.url)
    nobody.session = wire.session
    assert nobody.ask("tools/list")[0] == 401
    for made_up in ("0" * 32, wire.session[:-4] + "AAAA", "é", "A" * 600):
        forged = Wire(two.url, token=tokens[0])
        forged.session = made_up.encode().decode("latin-1")
        assert forged.ask("tools/list")[0] == 404
    elsewhere = Wire(two.url, "/mcp/all", tokens[0])
    elsewhere.session = wire.session
    assert elsewhere.ask("tools/list")[0] == 404


def copy_tokens(one: Replica, two: Replica) -> None:
    """Have the tokens of one gateway count at another one, which has files of its own."""
    [kept] = one.cli.home.rglob("tokens-*.json")
    [run] = two.cli.home.rglob("run")
    name = next(run.glob("gateway-*.json")).name.replace("gateway-", "tokens-")
    copy = run.parent / "tokens" / name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(kept.read_bytes())
    copy.chmod(0o600)


def test_what_needs_the_session_itself_is_not_answered_elsewhere(replicas: Replicas) -> None:
    """The client begins a new session then, as the protocol has it."""
    one, two = replicas.start(KEY), replicas.start(KEY)
    wire = Wire(one.url).open(elicitation={})
    assert wire.send("GET", url=two.url)[0] == 404
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "result": {"action": "decline"}}
    assert wire.send("POST", reply, two.url)[0] == 404
    assert wire.send("DELETE", url=two.url)[0] == 405
    assert wire.send("GET")[0] == 200
    assert wire.send("DELETE")[0] == 200
    assert wire.ask("tools/list")[0] == 404, "here it has ended"
    phases = Wire(one.url, "/mcp/two-phase").open()
    assert phases.ask("tools/list")[0] == 200
    assert phases.ask("tools/list", two.url)[0] == 404


def test_servers_with_instances_of_their_own_need_the_session(replicas: Replicas) -> None:
    one = replicas.start(KEY)
    two = replicas.start(KEY, {"share": False})
    assert Wire(one.url).open().ask("tools/list", two.url)[0] == 404


def test_another_gateway_does_not_skip_the_question(replicas: Replicas) -> None:
    """A destructive call of a client that can ask its user waits for an answer, or is not made."""
    one, two = replicas.start(KEY), replicas.start(KEY)
    asks, silent = Wire(one.url).open(elicitation={}), Wire(one.url).open()
    delete: dict[str, Any] = {"tool": "files:delete_file", "arguments": {}}
    status, answer = asks.call("call_destructive_tool", two.url, **delete)
    assert (status, answer["result"]["isError"]) == (200, True)
    assert "make the call again" in text(answer)
    assert not replicas.calls.exists()
    status, answer = silent.call("call_destructive_tool", two.url, **delete)
    assert (status, answer["result"].get("isError", False)) == (200, False)
    assert replicas.calls.exists()


@contextmanager
def stopped(replica: Replica) -> Generator[None]:
    assert replica.cli("gateway", "stop").returncode == 0
    yield


def test_when_one_of_two_ends_its_sessions_go_on_in_the_other(replicas: Replicas) -> None:
    one, two = replicas.start(KEY), replicas.start(KEY)
    wire = Wire(one.url).open()
    with stopped(one):
        for _ in range(3):
            assert wire.ask("tools/list", two.url)[0] == 200


@pytest.mark.requirement("config:profiles")
def test_a_profile_in_an_address_reaches_the_gateway_of_the_session(
    tmp_path: Path, no_process_left: None, new_database: Callable[[], str]
) -> None:
    """The one that got the request knows more tools under that name, and has not answered."""
    del no_process_left
    replicas = Replicas(tmp_path, in_database(new_database()))
    try:
        one, two = replicas.start(KEY), replicas.start(KEY)
        for replica, tools in ((one, ["files__read_file"]), (two, ["files"])):
            path = replica.cli.home / ".toolscript.json"
            servers = json.loads(path.read_text("utf-8"))
            path.write_text(json.dumps(servers | {"profiles": {"few": tools}}), "utf-8")
            until(lambda at=replica: Wire(at.url, "/mcp/p/few").ask("ping")[0] != 404, "is there")
        wire = Wire(one.url, "/mcp/p/few/all").open()
        for url in (one.url, two.url):
            _, answer = wire.ask("tools/list", url)
            names = [each["name"] for each in answer["result"]["tools"]]
            assert [name for name in names if "__" in name] == ["files__read_file"]
    finally:
        stop_all(replica.cli.record()["pid"] for replica in replicas.started)
