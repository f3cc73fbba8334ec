"""Logins: refreshed by several processes, called back by others, sent elsewhere by a server."""

import http.server
import json
import socket
import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from tests import launcher
from tests.servers.logins import login_under_way, oauth_server, stored_logins, visit
from tests.support import FUZZY, Cli, fetch, until
from toolscript.gateway.oauth.login import Login, LoginNeededError, may_be_asked
from toolscript.types import ServerSpec


@pytest.fixture
def guarded(cli: Cli, tmp_path: Path) -> Generator[Cli]:
    """A configuration of a server that asks for a login, and ends one that is used twice."""
    files = {name: str(tmp_path / name) for name in ("ROTATING", "CLOSED", "REFRESHES")}
    with oauth_server(SLOW_S="0.3", **files) as url:
        cli.env = FUZZY
        cli.configure(guarded={"url": url})
        yield cli


def logging_in(cli: Cli) -> AbstractContextManager[tuple[Any, str]]:
    return login_under_way("guarded", cli.environment(), cli.home)


def log_in(cli: Cli) -> None:
    with logging_in(cli) as (process, url):
        assert visit(url)[0] == 200
        assert process.wait(60) == 0


def stored(cli: Cli) -> bytes:
    """The one login that is stored."""
    with stored_logins(cli.environment()) as records:
        [name] = records.names()
        return records.read(name) or b""


def expire(cli: Cli) -> None:
    """Have the token count as expired, for every process."""
    with stored_logins(cli.environment()) as records:
        [name] = records.names()
        state = json.loads(records.read(name) or b"") | {"expires_at": 1.0}
        records.write(name, json.dumps(state).encode())


def listed_at_once(cli: Cli, number: int) -> list[str]:
    """The server's state in so many processes that connect at the same time."""
    command = ["list-servers", "--refresh", "--output", "json"]
    with ExitStack() as stack:
        many = [
            stack.enter_context(launcher.begin(command, cli.home, cli.environment()))
            for _ in range(number)
        ]
        said = [json.loads(each.communicate(timeout=60)[0]) for each in many]
    return [each["servers"][0]["error"] or each["servers"][0]["state"] for each in said]


def refreshes(tmp_path: Path) -> list[str]:
    file = tmp_path / "REFRESHES"
    return file.read_text("utf-8").split() if file.exists() else []


# M12: refreshing at once


@pytest.mark.both_storages
def test_m12_processes_refresh_a_token_once_between_them(guarded: Cli, tmp_path: Path) -> None:
    """upstream:transports: three commands and a gateway, and no token is used twice."""
    log_in(guarded)
    guarded.start_gateway()
    expire(guarded)
    assert listed_at_once(guarded, 3) == ["ready"] * 3
    assert refreshes(tmp_path) == ["new"]
    url = guarded.record()["url"]
    until(lambda: fetch(url, "/servers")[1]["servers"][0]["state"] == "ready", "it is ready, too")


@pytest.mark.anyio
async def test_m12_what_another_process_has_refreshed_is_taken_over(tmp_path: Path) -> None:
    """upstream:transports: a refresh would fail here, since there is no server to ask."""
    spec = ServerSpec(name="s", transport="http", url="http://127.0.0.1:9/mcp")
    ours, theirs = Login(tmp_path, spec), Login(tmp_path, spec)
    client = OAuthClientInformationFull(client_id="c", redirect_uris=[AnyUrl("http://127.0.0.1/")])
    shown: list[str] = []

    def token(name: str) -> OAuthToken:
        return OAuthToken(access_token=name, refresh_token=f"r-{name}", expires_in=3600)

    async def ask() -> None:
        flow = ours.refreshing().async_auth_flow(httpx2.Request("POST", spec.url))
        shown.append((await anext(flow)).headers["authorization"])
        await flow.aclose()

    await theirs.set_client_info(client)
    await theirs.set_tokens(token("old"))
    state = json.loads(theirs.path.read_bytes()) | {"expires_at": 1.0}
    theirs.path.write_text(json.dumps(state), "utf-8")
    async with anyio.create_task_group() as tasks, theirs.locked():
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        await theirs.set_tokens(token("new"))
    assert shown == ["Bearer new"]


@pytest.mark.both_storages
def test_m12_a_token_that_is_refused_is_refreshed_once(guarded: Cli, tmp_path: Path) -> None:
    """upstream:transports: though it has not expired; nobody is told to log in."""
    log_in(guarded)
    (tmp_path / "ROTATING").touch()
    assert listed_at_once(guarded, 2) == ["ready"] * 2
    assert refreshes(tmp_path) == ["new"]


@pytest.mark.both_storages
def test_m12_a_refresh_token_that_is_worth_nothing_is_not_sent_again(
    guarded: Cli, tmp_path: Path
) -> None:
    """upstream:transports: the user is told to log in."""
    log_in(guarded)
    (tmp_path / "CLOSED").touch()
    (tmp_path / "ROTATING").touch()
    expire(guarded)
    assert all("log in with toolscript auth" in said for said in listed_at_once(guarded, 2))
    assert refreshes(tmp_path) == ["closed"]


# M13: coming back


def test_m13_only_the_user_who_was_sent_away_comes_back(guarded: Cli) -> None:
    """upstream:transports: past a connection that says nothing, and callbacks of others."""
    with logging_in(guarded) as (process, url):
        query = parse_qs(urlsplit(url).query)
        back, [state] = query["redirect_uri"][0], query["state"]
        with socket.create_connection(("127.0.0.1", urlsplit(back).port or 0)):
            for forged in ("error=access_denied", "code=x", "code=x&state=wrong", "error=x&state="):
                assert visit(f"{back}?{forged}")[0] == 404, forged
            other = back.replace("/callback", f"/other?code=x&state={state}")
            assert visit(other)[0] == 404
            assert process.poll() is None
            assert visit(url)[0] == 200
            assert process.wait(60) == 0


@pytest.mark.both_storages
def test_m13_a_login_is_replaced_by_the_next_one_that_succeeds(guarded: Cli) -> None:
    """upstream:transports: not by one that was only begun, or that the user refuses."""
    log_in(guarded)
    before = stored(guarded)
    with logging_in(guarded) as (process, url):
        process.kill()
    with logging_in(guarded) as (process, url):
        query = parse_qs(urlsplit(url).query)
        refused = f"error=access_denied&state={query['state'][0]}"
        assert visit(f"{query['redirect_uri'][0]}?{refused}")[0] == 200
        assert process.wait(60) == 1
    assert stored(guarded) == before
    log_in(guarded)
    assert stored(guarded) != before


# L18: where a server sends us


class _Server(http.server.ThreadingHTTPServer):
    """Answers everything with one status and header, and counts."""

    def __init__(self, status: int, challenge: str = "") -> None:
        asked: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                asked.append(f"{self.command} {self.path}")
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.send_header("WWW-Authenticate", challenge)
                self.end_headers()

            do_POST = do_GET  # noqa: N815 - as there

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - as there

        self.asked = asked
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def test_l18_a_server_that_refuses_a_token_cannot_make_us_ask_elsewhere(tmp_path: Path) -> None:
    """upstream:transports: nor itself for anything else; the user is told to log in."""
    with _Server(404) as other:
        challenge = f'Bearer resource_metadata="{other.url}/latest/meta-data"'
        with _Server(401, challenge) as rogue:
            spec = ServerSpec(name="rogue", transport="http", url=f"{rogue.url}/mcp")
            login = Login(tmp_path, spec)

            async def ask() -> None:
                await login.set_tokens(OAuthToken(access_token="acc", expires_in=3600))  # noqa: S106 - none
                async with httpx2.AsyncClient(auth=login.refreshing()) as client:
                    with pytest.raises(LoginNeededError):
                        await client.post(spec.url, json={})

            anyio.run(ask)
            rogue.shutdown()
            other.shutdown()
    assert rogue.asked == ["POST /mcp"]
    assert other.asked == []


async def _no_user() -> AuthorizationCodeResult:
    raise AssertionError


async def _not_sent(url: str) -> None:
    raise AssertionError(url)


@pytest.mark.anyio
async def test_l18_logging_in_asks_no_private_address_for_a_public_server(tmp_path: Path) -> None:
    """upstream:transports: what the server names is refused before it is asked."""
    spec = ServerSpec(name="rogue", transport="http", url="https://93.184.216.34/mcp")
    challenge = 'Bearer resource_metadata="https://169.254.169.254/latest/meta-data?x=1"'
    request = httpx2.Request("POST", spec.url)
    back = "http://127.0.0.1:1/callback"
    login = Login(tmp_path, spec).interactive(back, _not_sent, _no_user)
    flow = login.async_auth_flow(request)
    assert await anext(flow) is request
    refusal = httpx2.Response(401, headers={"WWW-Authenticate": challenge}, request=request)
    with pytest.raises(OAuthFlowError, match=r"169\.254\.169\.254/latest/meta-data, which"):
        await flow.asend(refusal)


PUBLIC, PRIVATE, LOCAL = "https://93.184.216.34/mcp", "https://10.1.2.3/mcp", "https://127.0.0.1/m"


@pytest.mark.parametrize(
    ("server", "target", "expected"),
    [
        (PUBLIC, "https://93.184.216.34/.well-known/x", True),
        (PUBLIC, "https://8.8.8.8/token", True),
        (PUBLIC, "http://8.8.8.8/token", False),
        (PUBLIC, "https://127.0.0.1:9/", False),
        (PUBLIC, "https://localhost/", False),
        (PUBLIC, "https://2130706433/", False),
        (PUBLIC, "https://name.invalid/", True),
        (PRIVATE, "https://192.168.0.1/", True),
        (PRIVATE, "https://169.254.169.254/", False),
        (LOCAL, "https://127.0.0.1:9/", True),
        ("http://127.0.0.1:80/mcp", "http://127.0.0.1:9/", True),
        ("http://127.0.0.1:80/mcp", "https://8.8.8.8/", True),
    ],
)
def test_l18_what_a_server_may_name(server: str, target: str, expected: bool) -> None:  # noqa: FBT001 - of the table
    """upstream:transports: nothing that is nearer than itself, nor without TLS where it has it."""
    asked = anyio.run(may_be_asked, httpx2.URL(server), httpx2.URL(target))
    assert asked is expected
