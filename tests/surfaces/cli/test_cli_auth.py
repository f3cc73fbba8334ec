"""``toolscript auth``, with a real server that asks for OAuth: upstream:transports."""

import json
import re
import socket
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.servers.logins import login_under_way, oauth_server, stored_logins, visit
from tests.stdio_sessions import Session, session
from tests.support import FUZZY, READ_FILE, Cli, Scripted, fetch, until

pytestmark = pytest.mark.both_storages
ADVICE = "answered HTTP 401; log in with toolscript auth guarded, or check its headers"


@pytest.fixture
def life_s() -> str:
    return "3600"


@pytest.fixture
def client() -> str:
    return ""


@pytest.fixture
def others() -> dict[str, str]:
    return {}


@pytest.fixture
def guarded(
    cli: Cli, tmp_path: Path, life_s: str, client: str, others: dict[str, str]
) -> Generator[Cli]:
    """A configuration of a server that asks for a login."""
    files = {"ROTATING": str(tmp_path / "rotating"), "CLOSED": str(tmp_path / "closed")}
    with oauth_server(LIFE_S=life_s, CLIENT=client, **files, **others) as url:
        cli.env = FUZZY
        cli.configure(guarded={"url": url})
        yield cli


def log_in(cli: Cli) -> tuple[int, str]:
    """Log in, with this process as the browser; the status and what is said."""
    with login_under_way("guarded", cli.environment(), cli.home) as (process, url):
        _, page = visit(url)
        out, err = process.communicate(timeout=60)
        return process.wait(), (out + err).decode() + page


def kept(cli: Cli) -> dict[str, Any]:
    [login] = logins(cli)
    return json.loads(login)


def logins(cli: Cli) -> list[bytes]:
    """The logins that are stored: in files, or sealed in the database."""
    with stored_logins(cli.environment()) as records:
        return [records.read(name) or b"" for name in records.names()]


def server(cli: Cli) -> dict[str, Any]:
    [found] = fetch(cli.record()["url"], "/servers")[1]["servers"]
    return found


def call(one: Session) -> dict[str, Any]:
    return one.call("guarded:read_file", path="a.txt")


def works_now(cli: Cli, one: Session) -> None:
    """Once the login is stored, the next call waits for the connection, without a restart."""
    until(lambda: logins(cli), "the login is stored")
    answer = call(one)
    assert not answer.get("isError"), answer


@pytest.mark.requirement("upstream:transports")
def test_a_call_that_needs_a_login_tells_where(guarded: Cli) -> None:
    """upstream:transports: the address works, and so does the next call; one login at a time."""
    with session(guarded) as one, session(guarded) as other:
        told = [call(each)["content"][0]["text"] for each in (one, other)]
        assert ADVICE in told[0]
        [first, second] = [re.findall(r"to log in, open (\S+) and then", text) for text in told]
        assert first == second
        assert visit(first[0])[0] == 200
        works_now(guarded, one)


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("others", [{"NO_STREAM": ""}], ids=["405"])
def test_a_server_that_asks_only_posts_for_a_login(guarded: Cli) -> None:
    """upstream:transports: that it does not speak SSE, which is tried then, hides no login."""
    with session(guarded) as one:
        told = call(one)["content"][0]["text"]
        [address] = re.findall(r"to log in, open (\S+) and then", told)
        assert visit(address)[0] == 200
        works_now(guarded, one)


@pytest.mark.requirement("upstream:transports")
def test_a_client_that_opens_addresses_is_asked_to(guarded: Cli) -> None:
    """upstream:transports: its user logs in there."""
    with session(guarded, version="2025-11-25", elicitation={"url": {}}) as one:
        given = {"tool": "guarded:read_file", "arguments": {"path": "a.txt"}}
        number = one.begin("tools/call", name="call_destructive_tool", arguments=given)
        asked = one.until(lambda each: each.get("method") == "elicitation/create")
        assert (asked["params"]["mode"], "guarded" in asked["params"]["message"]) == ("url", True)
        assert visit(asked["params"]["url"])[0] == 200
        one.send(id=asked["id"], result={"action": "accept"})
        assert "call again once" in one.answer(number)["result"]["content"][0]["text"]
        works_now(guarded, one)


@pytest.mark.requirement("upstream:transports")
def test_logging_in_connects_a_running_gateway(guarded: Cli) -> None:
    """upstream:transports: before, it says what to do; tokens are the owner's only."""
    guarded.start_gateway()
    assert server(guarded)["error"] == ADVICE
    code, said = log_in(guarded)
    assert code == 0, said
    assert "logged in to guarded" in said
    assert "You are logged in." in said
    until(lambda: server(guarded)["state"] == "ready", "the gateway has connected")
    for path in (guarded.home / ".toolscript" / "auth").glob("*.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    tokens = kept(guarded)["tokens"]
    logs = "".join(p.read_text("utf-8") for p in guarded.home.rglob("*.log"))
    told = json.dumps(server(guarded)) + logs + said
    assert tokens["access_token"] not in told
    assert tokens["refresh_token"] not in told
    assert guarded("search", "read_file").stdout.count("guarded__read_file") == 1


@pytest.mark.requirement("upstream:transports")
@pytest.mark.parametrize("life_s", ["31"])
def test_a_token_is_refreshed_before_it_expires(guarded: Cli) -> None:
    """upstream:transports: by a process that did not log in; it counts as expired after 1 s."""
    assert log_in(guarded)[0] == 0
    before = kept(guarded)["tokens"]
    until(lambda: refreshed(guarded, before), "the token was refreshed")
    assert guarded("list-tools").stdout.count("guarded__read_file") == 1


def refreshed(cli: Cli, before: dict[str, Any]) -> bool:
    done = cli("list-servers", "--refresh", "--output", "json")
    assert json.loads(done.stdout)["servers"][0]["state"] == "ready"
    return kept(cli)["tokens"]["access_token"] != before["access_token"]


@pytest.mark.requirement("upstream:transports")
def test_a_token_that_is_not_taken_any_more_is_refreshed(guarded: Cli, tmp_path: Path) -> None:
    """upstream:transports: though it has not expired."""
    assert log_in(guarded)[0] == 0
    before = kept(guarded)["tokens"]
    guarded.start_gateway()
    assert server(guarded)["state"] == "ready"
    (tmp_path / "rotating").touch()
    until(lambda: kept(guarded)["tokens"] != before, "the token was refreshed")
    until(lambda: server(guarded)["state"] == "ready", "the gateway is connected again")


@pytest.mark.requirement("upstream:transports")
def test_a_login_that_has_ended_is_told(guarded: Cli, tmp_path: Path) -> None:
    """upstream:transports: nothing can be refreshed; logging in again helps."""
    assert log_in(guarded)[0] == 0
    guarded.start_gateway()
    for name in ("closed", "rotating"):
        (tmp_path / name).touch()
    until(lambda: server(guarded)["state"] == "failed", "it has failed")
    assert server(guarded)["error"] == ADVICE
    assert log_in(guarded)[0] == 0
    until(lambda: server(guarded)["state"] == "ready", "the gateway has connected")


def test_logging_out(guarded: Cli) -> None:
    assert guarded("auth", "guarded", "--logout").stdout == "not logged in\n"
    assert log_in(guarded)[0] == 0
    assert guarded("auth", "guarded", "--logout").stdout == "logged out\n"
    assert logins(guarded) == []
    [found] = guarded.json("list-servers", "--refresh")["servers"]
    assert found["state"] == "failed"


@pytest.fixture
def port() -> int:
    """One that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class TestARegisteredClient:
    """Of a server that registers nobody by itself: upstream:transports."""

    @pytest.fixture
    def client(self, port: int) -> str:
        return f"our-id our-own-secret {port}"

    @pytest.mark.requirement("upstream:transports")
    def test_it_logs_in(self, guarded: Cli, port: int) -> None:
        known = {"clientId": "our-id", "clientSecret": "${OUR_SECRET}", "callbackPort": port}
        self.configured(guarded, **known)
        guarded.env = FUZZY | {"OUR_SECRET": "our-own-secret"}
        code, said = log_in(guarded)
        assert code == 0, said
        assert guarded("list-tools").stdout.count("guarded__read_file") == 1
        assert "our-own-secret" not in said + json.dumps(kept(guarded))

    def test_without_it_the_user_learns_what_to_state(self, guarded: Cli) -> None:
        done = guarded("auth", "guarded", "--no-browser")
        assert done.returncode == 1
        assert "logging in to guarded failed: Registration failed: 404" in done.stderr
        assert done.stderr.strip().endswith("state oauth.clientId, or a token in headers")

    def test_a_wrong_secret_is_told_and_not_shown(self, guarded: Cli, port: int) -> None:
        self.configured(
            guarded, clientId="our-id", clientSecret="another-secret", callbackPort=port
        )
        code, said = log_in(guarded)
        assert code == 1
        assert "logging in to guarded failed" in said
        assert "another-secret" not in said

    def test_a_port_that_is_taken(self, guarded: Cli, port: int) -> None:
        self.configured(guarded, clientId="our-id", callbackPort=port)
        with socket.create_server(("127.0.0.1", port)):
            done = guarded("auth", "guarded", "--no-browser")
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert f"the browser cannot come back to port {port}, as oauth.callbackPort has it" in (
            done.stderr
        )

    def configured(self, cli: Cli, **oauth: object) -> None:
        file = cli.home / ".toolscript.json"
        [server] = json.loads(file.read_text("utf-8"))["mcpServers"].values()
        cli.configure(guarded={"url": server["url"], "oauth": oauth})


def test_what_cannot_be_logged_in_to(guarded: Cli, scripted: Scripted) -> None:
    """upstream:transports: one line each."""
    done = guarded("auth", "gaurded")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no server is called 'gaurded'; configured are: guarded" in done.stderr
    guarded.configure(files=scripted(READ_FILE), gone={"url": "http://127.0.0.1:9/mcp"})
    done = guarded("auth", "files")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "files is a program of this machine" in done.stderr
    done = guarded("auth", "gone")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "logging in to gone failed: cannot be reached" in done.stderr
