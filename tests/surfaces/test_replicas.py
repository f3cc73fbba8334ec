"""Two gateways with one database, as processes: what either knows or is told, both have."""

import json
import os
import re
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.clients.driver import LISTENING
from tests.deploy.shipped import balancer
from tests.postgres_server import PostgresServer
from tests.support import (
    FUZZY,
    PATIENCE_S,
    READ_FILE,
    WRITES,
    Cli,
    Scripted,
    alive,
    child_processes,
    create_token,
    fetch,
    post,
    stop_all,
    tool,
    until,
    write_config,
)
from tests.surfaces.mcp.test_mcp import MODES, Mode, said

from toolscript.postgres import schema
from toolscript.postgres.database import Database

KEY = "a" * 32
CLIENTS = 12
WRITE = tool("write_file", "Write a file", **WRITES)


class Gateway:
    """One of the gateways, with a data directory of its own."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.url = cli.start_gateway()

    @property
    def pid(self) -> int:
        return self.cli.record()["pid"]

    def call(self, name: str, **arguments: Any) -> tuple[int, Any]:
        return post(self.url, f"/tools/{name}", arguments)

    def tells(self, name: str) -> int:
        """The process that answers a call of a server that tells it."""
        status, answer = self.call(name)
        assert status == 200, answer
        return json.loads(answer["content"][0]["text"])["pid"]

    def finds(self, text: str) -> list[str]:
        status, answer = fetch(self.url, "/search", {"q": text, "limit": 20})
        assert status == 200, answer
        return [hit["toolId"] for hit in answer["results"]]

    def servers(self) -> dict[str, Any]:
        status, answer = fetch(self.url, "/servers")
        assert status == 200, answer
        return {server["name"]: server for server in answer["servers"]}

    def is_ready(self) -> bool:
        return fetch(self.url, "/ready")[0] == 200


class Gateways:
    """Gateways of the same configuration and database."""

    def __init__(self, home: Path, database_url: str) -> None:
        self.home, self.url = home, database_url
        self.scripted = Scripted(home)
        self.config = home / "servers.json"
        self.env = FUZZY | {
            "TOOLSCRIPT_DATABASE": database_url,
            "TOOLSCRIPT_SECRET_KEY": KEY,
            "TOOLSCRIPT_CONFIG": str(self.config),
        }
        self.started: list[Gateway] = []

    def configure(self, **servers: Any) -> None:
        write_config(self.config, servers)

    def start(self, **env: str) -> Gateway:
        home = self.home / f"gateway-{len(self.started)}"
        home.mkdir()
        self.started.append(Gateway(Cli(home, self.env | env)))
        gateway = self.started[-1]
        until(gateway.is_ready, "the gateway is ready")
        return gateway

    def noted(self, name: str) -> list[str]:
        """The lines of a file that servers write to."""
        path = self.home / name
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def server(self, name: str, *tools: Any, **will: Any) -> Any:
        """A server that notes its starts and its calls, and tells its process."""
        files = {each: str(self.home / f"{name}.{each}") for each in ("starts", "calls")}
        return self.scripted(*(tools or (READ_FILE, WRITE)), tells=True, **files, **will)


@pytest.fixture
def gateways(tmp_path: Path, database_url: str, no_process_left: None) -> Generator[Gateways]:
    made = Gateways(tmp_path, database_url)
    yield made
    stop_all(each.cli.record()["pid"] for each in made.started if each.cli.records)


def kill(gateway: Gateway) -> None:
    """End a gateway as a machine's end does."""
    pid = gateway.pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "it has ended")


def test_each_server_is_listed_by_one_gateway_and_known_to_both(gateways: Gateways) -> None:
    names = [f"files{n}" for n in range(6)]
    gateways.configure(**{name: gateways.server(name) for name in names})
    one, two = gateways.start(), gateways.start()
    for name in names:
        assert len(gateways.noted(f"{name}.starts")) == 1, "the second one has adopted its entry"
    assert set(two.finds("read_file")) == set(one.finds("read_file")) != set()
    for name in names:
        assert one.call(f"{name}__write_file")[0] == two.call(f"{name}__write_file")[0] == 200
        assert len(gateways.noted(f"{name}.calls")) == 2


def test_what_is_approved_at_one_gateway_can_be_called_at_both(gateways: Gateways) -> None:
    tools = gateways.home / "tools.json"
    tools.write_text(json.dumps([WRITE]), "utf-8")
    gateways.configure(files=gateways.server("files", tools_file=str(tools)))
    one, two = gateways.start(), gateways.start()
    for each in (one, two):
        assert each.call("files__write_file")[0] == 200
    tools.write_text(json.dumps([WRITE | {"description": "Write whatever it likes"}]), "utf-8")
    for each in (one, two):
        until(lambda each=each: each.servers()["files"]["held"] == 1, "it is held at both")
        assert each.call("files__write_file")[0] == 403
    for approving, other in ((two, one), (one, two)):
        done = approving.cli("review", "files__write_file", "--approve")
        assert done.returncode == 0, done.stderr
        assert approving.call("files__write_file")[0] == 200
        until(lambda other=other: other.call("files__write_file")[0] == 200, "at the other, too")
        tools.write_text(json.dumps([WRITE | {"description": f"Again {approving.url}"}]), "utf-8")
        for each in (one, two):
            until(lambda each=each: each.servers()["files"]["held"] == 1, "it is held again")


def test_a_server_that_runs_once_is_one_process_for_both(gateways: Gateways) -> None:
    gateways.configure(state=gateways.server("state") | {"instances": "one"})
    one, two = gateways.start(), gateways.start()
    pids = {each.tells("state__write_file") for each in (one, two, one, two)}
    assert len(pids) == 1
    assert len(gateways.noted("state.calls")) == 4
    running = gateways.noted("state.starts")
    assert [int(pid) for pid in running] == list(pids)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])  # noqa: S104 - with a token
def test_gateways_that_listen_everywhere_reach_each_other(gateways: Gateways, host: str) -> None:
    """Each has told the others an address of its machine."""
    gateways.configure(state=gateways.server("state") | {"instances": "one"})
    token = Cli(gateways.home, gateways.env).json("token", "create")["token"]
    headers = bearer(token) | {"Content-Type": "application/json"}
    one, two = (gateways.start(TOOLSCRIPT_HOST=host) for _ in range(2))
    for each in (one, two):
        path = "/tools/state__write_file"
        assert fetch(each.url, path, method="POST", headers=headers, body=b"{}")[0] == 200
    assert len(gateways.noted("state.starts")) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_when_its_gateway_dies_or_hangs_another_runs_it(
    gateways: Gateways, number: signal.Signals
) -> None:
    gateways.configure(state=gateways.server("state") | {"instances": "one"})
    one, two = gateways.start(), gateways.start()
    first = one.tells("state__write_file")
    [owner] = [each for each in (one, two) if str(first) in children(each)]
    [other] = [each for each in (one, two) if each is not owner]
    pid = owner.pid
    os.kill(pid, number)
    try:
        second = until(lambda: answered(other), "the other one runs it")
    finally:
        if number == signal.SIGSTOP:
            os.kill(pid, signal.SIGCONT)
    assert second != first
    if number == signal.SIGSTOP:  # it goes on, and passes calls on from now on
        until(lambda: owner.tells("state__write_file") == second, "both ask the new one")
        until(lambda: str(first) not in children(owner), "the old one is stopped")


def children(gateway: Gateway) -> set[str]:
    return {str(pid) for pid in child_processes(gateway.pid)}


def answered(gateway: Gateway) -> int | None:
    status, answer = gateway.call("state__write_file")
    return json.loads(answer["content"][0]["text"])["pid"] if status == 200 else None


def test_a_call_whose_gateway_is_lost_is_not_made_again(gateways: Gateways) -> None:
    gateways.configure(state=gateways.server("state", silent=["write_file"]) | {"instances": "one"})
    one, two = gateways.start(), gateways.start()
    assert one.call("state__read_file")[0] == 200
    [pid] = gateways.noted("state.starts")
    [owner] = [each for each in (one, two) if pid in children(each)]
    [other] = [each for each in (one, two) if each is not owner]
    answers: list[tuple[int, Any]] = []
    caller = threading.Thread(target=lambda: answers.append(other.call("state__write_file")))
    caller.start()
    until(lambda: len(gateways.noted("state.calls")) == 2, "the call has arrived")
    kill(owner)
    caller.join(60)
    [(status, answer)] = answers
    assert status == 502
    assert "whether it was done is unknown" in answer["error"]
    assert other.call("state__read_file")[0] == 200
    made = [json.loads(line)["name"] for line in gateways.noted("state.calls")]
    assert made == ["read_file", "write_file", "read_file"]


def test_a_gateway_that_is_asked_to_end_serves_the_others_until_then(gateways: Gateways) -> None:
    """It runs a server alone, and a caller of its own still waits."""
    gateways.configure(
        state=gateways.server("state") | {"instances": "one"},
        files=gateways.server("files", silent=["write_file"]),
    )
    one, two = gateways.start(), gateways.start()
    first = one.tells("state__write_file")
    [owner] = [each for each in (one, two) if str(first) in children(each)]
    [other] = [each for each in (one, two) if each is not owner]
    pid, netloc = owner.pid, urlsplit(owner.url).netloc
    with closing(HTTPConnection(netloc)) as caller:
        headers = {"Content-Type": "application/json"}
        caller.request("POST", "/tools/files__write_file", b"{}", headers)
        until(lambda: gateways.noted("files.calls"), "the call has arrived")
        os.kill(pid, signal.SIGTERM)
        until(lambda: not owner.is_ready(), "it closes down")
        assert fetch(owner.url, "/servers")[0] == 503
        for _ in range(3):
            assert other.tells("state__write_file") == first
        caller.sock.shutdown(SHUT_RDWR)
    until(lambda: not alive(pid), "it has ended")
    assert until(lambda: answered(other), "the other one runs it") != first


def test_behind_a_pooler_gateways_share_tokens_and_hear_of_changes(
    gateways: Gateways, pooler_port: int, postgres: PostgresServer
) -> None:
    gateways.env["TOOLSCRIPT_DATABASE"] = gateways.url.replace(
        f":{postgres.port}/", f":{pooler_port}/"
    )
    gateways.configure(files=gateways.server("files"))
    one, two = gateways.start(), gateways.start()
    made = one.cli.json("token", "create")

    def status(gateway: Gateway) -> int:
        return fetch(gateway.url, "/servers", headers=bearer(made["token"]))[0]

    for each in (one, two):
        until(lambda each=each: fetch(each.url, "/servers")[0] == 401, "it asks for a token")
        assert status(each) == 200
    assert len(gateways.noted("files.starts")) == 1, "the other one has adopted its entry"
    assert two.cli("token", "revoke", made["id"]).returncode == 0
    for each in (one, two):
        until(lambda each=each: status(each) == 401, "it is refused")


def test_while_the_database_is_away_searches_and_calls_go_on(
    gateways: Gateways, postgres: PostgresServer
) -> None:
    servers = {
        "files": gateways.server("files"),
        "state": gateways.server("state") | {"instances": "one"},
    }
    gateways.configure(**servers)
    one, two = gateways.start(), gateways.start()
    pid = one.tells("state__write_file")
    assert two.tells("state__write_file") == pid
    postgres.stop()
    try:
        for each in (one, two):
            until(lambda each=each: database_of(each) is False, "it has noticed")
            assert "files__read_file" in each.finds("read_file")
            assert each.call("files__write_file")[0] == 200
            assert each.tells("state__write_file") == pid
            assert fetch(each.url, "/live")[0] == 200
    finally:
        postgres.start()
    for each in (one, two):
        until(lambda each=each: database_of(each), "it is back")
        assert each.tells("state__write_file") == pid
    gateways.configure(**servers, other=gateways.server("other"))
    for each in (one, two):
        until(lambda each=each: "other__read_file" in each.finds("read_file"), "changes go on")
    assert len(gateways.noted("other.starts")) == 1


def test_a_server_is_known_that_another_gateway_listed_before_this_one_had_it(
    gateways: Gateways, connect: Callable[[], Database]
) -> None:
    """The first to notice a change of the configuration may have listed the server by then.

    Each owner starts the server once. There may be more than one: a lease that is not renewed
    in time, on a busy machine, goes to the other gateway.
    """

    def owners() -> int:
        query = "select max(epoch) from toolscript.lease where name like 'other@%'"
        return connect().run(lambda c: c.fetchval(query))

    files = {"files": gateways.server("files")}
    both = files | {"other": gateways.server("other")}
    gateways.configure(**files)
    one, two = gateways.start(), gateways.start()
    os.kill(two.pid, signal.SIGSTOP)
    try:
        gateways.configure(**both)
        until(lambda: "other__read_file" in one.finds("read_file"), "one of them has listed it")
    finally:
        os.kill(two.pid, signal.SIGCONT)
    until(lambda: "other__read_file" in two.finds("read_file"), "the other one knows it")
    assert len(gateways.noted("other.starts")) == owners()
    gateways.configure(**files)
    for each in (one, two):
        until(lambda each=each: "other__read_file" not in each.finds("read_file"), "it is gone")
    gateways.configure(**both)
    for each in (one, two):
        until(lambda each=each: "other__read_file" in each.finds("read_file"), "it is back")
    assert len(gateways.noted("other.starts")) <= owners() + 1


def database_of(gateway: Gateway) -> bool | None:
    """What a ready gateway says of its database; None where it says nothing."""
    status, answer = fetch(gateway.url, "/ready")
    assert status == 200, answer
    return answer.get("database")


def test_a_gateway_says_how_its_database_is_doing(gateways: Gateways) -> None:
    gateways.configure(files=gateways.server("files"))
    one, two = gateways.start(), gateways.start()
    until(lambda: owners_health(one)["database"]["replicas"] == 2, "it knows of the other one")

    def states() -> list[Any]:
        return [owners_health(each)["database"] for each in (one, two)]

    until(lambda: sum(state["leases"] for state in states()) == 1, "one of them has the lease")
    assert all(state["answers"] and state["lagS"] < 5 for state in states())
    assert "this one lists" in one.cli("gateway", "status").stderr
    [found] = [
        f
        for f in json.loads(one.cli("doctor", "--output", "json").stdout)["findings"]
        if f["what"] == "database"
    ]
    assert found["ok"]
    assert "2 gateways" in found["found"]
    key = one.cli.record()["key"]
    status, text = fetch(one.url, "/metrics", headers={"Authorization": f"Bearer {key}"})
    assert status == 200
    assert "toolscript_database_up 1.0" in text
    assert "toolscript_replicas 2.0" in text


def owners_health(gateway: Gateway) -> Any:
    key = gateway.cli.record()["key"]
    return fetch(gateway.url, "/health", headers={"Authorization": f"Bearer {key}"})[1]


def test_with_another_schema_it_is_not_ready_and_says_why(
    gateways: Gateways, connect: Callable[[], Database]
) -> None:
    gateways.configure(files=gateways.server("files"))
    one = gateways.start()
    database = connect()
    move = "update toolscript.schema_version set version = version + $1"
    database.run(lambda c: c.execute(move, 9))
    status, answer = until(lambda: unready(one), "it is not ready")
    assert status == 503
    assert f"this release needs {schema.latest()}" in answer["error"]
    assert fetch(one.url, "/live")[0] == 200
    database.run(lambda c: c.execute(move, -9))
    until(one.is_ready, "it is ready again")


def unready(gateway: Gateway) -> tuple[int, Any] | None:
    status, answer = fetch(gateway.url, "/ready")
    return None if status == 200 else (status, answer)


# Sessions


def clients_of(gateways: Gateways, url: str) -> dict[int, str]:
    """A token for each gateway whose bearers the balancer sends there, by the gateway's process."""
    tokens = [create_token(gateways.started[0].cli)["token"] for _ in range(CLIENTS)]

    def served() -> dict[int, str]:
        answers = [(fetch(url, "/health", headers=bearer(each)), each) for each in tokens]
        return {answer.get("pid", 0): token for (_, answer), token in answers}

    pids = {each.pid for each in gateways.started}
    return until(lambda: found if (found := served()).keys() == pids else None, "both serve")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def talk_as(token: str, url: str, work: Callable[[Client], Awaitable[None]], **more: Any) -> None:
    """A session of a client that shows a token."""

    async def session() -> None:
        async with httpx2.AsyncClient(headers=bearer(token), timeout=PATIENCE_S) as sender:
            server = streamable_http_client(url, http_client=sender)
            async with Client(server, **more) as client:
                await work(client)

    anyio.run(session)


@pytest.mark.requirement("mcp:transports")
@pytest.mark.parametrize("mode", MODES)
def test_each_client_stays_with_one_gateway(gateways: Gateways, tmp_path: Path, mode: Mode) -> None:
    """mcp:transports: which has asked its user, and keeps its long results."""
    text = "\n".join(f"line {number}" for number in range(1000))
    whole = {"content": [{"type": "text", "text": text}]}
    logs = gateways.scripted(tool("log") | WRITES, results={"log": whole})
    asks = gateways.scripted(tool("greet") | WRITES, elicits="Who are you?")
    gateways.configure(logs=logs | {"resultLimit": {"log": 4000}}, asks=asks)
    one, two = gateways.start(), gateways.start()

    async def ask(context: Any, params: Any) -> types.ElicitResult:
        del context, params
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def work(client: Client) -> None:
        for _ in range(3):
            answer = await said(client, "call_tool", {"tool": "asks__greet"})
            assert answer == {"action": "accept", "content": {"name": "Ada"}}
            called = await client.call_tool("call_tool", {"tool": "logs__log"})
            [found] = re.findall(r"read_result with handle '(\w+)'", called.model_dump_json())
            more = await client.call_tool("read_result", {"handle": found, "lines": "8"})
            assert "line 7" in more.model_dump_json()

    with balancer(tmp_path, one.url, two.url) as url:
        for token in clients_of(gateways, url).values():
            talk_as(token, f"{url}/mcp/search", work, mode=mode, elicitation_callback=ask)


def test_a_client_opens_another_session_once_its_gateway_has_ended(
    gateways: Gateways, tmp_path: Path
) -> None:
    gateways.configure(files=gateways.server("files"))
    one, two = gateways.start(), gateways.start()

    async def work(client: Client) -> None:
        assert not (await client.call_tool("files__write_file", {})).is_error

    async def lose(client: Client) -> None:
        await work(client)
        kill(one)
        with pytest.raises(MCPError):  # the first request finds the lost connection
            await work(client)
        with pytest.raises(MCPError, match=r"Session not found|Session terminated"):
            await work(client)

    with balancer(tmp_path, one.url, two.url) as url:
        token = clients_of(gateways, url)[one.pid]
        talk_as(token, f"{url}/mcp/all", lose, mode="legacy")
        talk_as(token, f"{url}/mcp/all", work, mode="legacy")


def test_a_listener_hears_of_tools_that_another_gateway_lists(gateways: Gateways) -> None:
    """Of a server that its own gateway does not list."""
    tools = gateways.home / "tools.json"
    tools.write_text(json.dumps([READ_FILE]), "utf-8")
    gateways.configure(files=gateways.server("files", tools_file=str(tools)))
    one, two = gateways.start(), gateways.start()
    connect = LISTENING["Python SDK 1"]
    with (
        connect({"url": f"{one.url}/mcp/all"}, one.cli.environment()) as first,
        connect({"url": f"{two.url}/mcp/all"}, one.cli.environment()) as second,
    ):
        for client in (first, second):
            assert set(client.tools()) == {"files__read_file", "read_result"}
        first.call("files__read_file")  # which starts the server
        tools.write_text(json.dumps([READ_FILE, WRITE]), "utf-8")
        for client in (first, second):
            until(client.heard, "the client is told", 20)
            until(lambda c=client: "files__write_file" in c.tools(), "it is listed")
