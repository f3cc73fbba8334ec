"""Logins belong to the issuer that a server named for them, and no other one gets anything.

The conformance suite has more attacks on a client, which `tests.clients` runs: answers with a wrong
or no ``iss``, metadata of another issuer, another server's ``resource``.
"""

import json
import logging
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest

from tests.servers.logins import oauth_server, visit
from toolscript.errors import UpstreamError
from toolscript.gateway.oauth.browser import log_in
from toolscript.gateway.oauth.login import Login
from toolscript.types import OAuthClient, ServerSpec

pytestmark = pytest.mark.requirement("upstream:transports")
SECRET = "our-own-secret"  # noqa: S105 - of tests


@dataclass
class Server:
    """An MCP server with its own issuer, and the user of a client."""

    url: str
    folder: Path
    oauth: OAuthClient | None = None

    @property
    def spec(self) -> ServerSpec:
        return ServerSpec(name="guarded", transport="http", url=self.url, oauth=self.oauth)

    @property
    def issuer(self) -> str:
        return self.url.removesuffix("/mcp") + "/"

    @property
    def login(self) -> Login:
        return Login(self.folder / "auth", self.spec)

    def heard(self) -> str:
        file = self.folder / "HEARD"
        return file.read_text("utf-8") if file.exists() else ""

    def name(self, issuer: str) -> None:
        """Has the server name another issuer from now on."""
        (self.folder / "ELSEWHERE").write_text(issuer, "utf-8")

    def log_in(self) -> None:
        def show(address: str) -> None:
            visit(address)

        log_in(self.folder / "auth", self.spec, show)

    def stored(self) -> dict[str, str]:
        """The issuer of a login without a registered client, and what goes to no other one."""
        state: dict[str, Any] = json.loads(self.login.path.read_bytes())
        return {
            "issuer": state["issuer"],
            "client": state["client"]["client_id"],
            **state["tokens"],
        }


@contextmanager
def server(folder: Path, oauth: OAuthClient | None = None, **more: str) -> Generator[Server]:
    folder.mkdir()
    files = {name: str(folder / name) for name in ("HEARD", "ELSEWHERE")}
    with oauth_server(**files, **more) as url:
        yield Server(url, folder, oauth)


def test_what_a_login_asks_for(tmp_path: Path) -> None:
    """A native client, and tokens for this server alone, also when they are refreshed."""
    with server(tmp_path / "a") as one:
        one.log_in()
        state = json.loads(one.login.path.read_bytes()) | {"expires_at": 1.0}
        one.login.path.write_text(json.dumps(state), "utf-8")

        async def use() -> None:
            async with httpx2.AsyncClient(auth=one.login.refreshing()) as client:
                await client.post(one.url, json={})

        anyio.run(use)
        lines = one.heard().splitlines()
    resource = f"resource={quote(one.url, safe='')}"
    [registration] = [line for line in lines if line.startswith("/register")]
    assert '"application_type":"native"' in registration
    for request in ("/authorize?", "/token? ", "/token? "):
        line = next(line for line in lines if line.startswith(request) and resource in line)
        lines.remove(line)
    assert not [line for line in lines if line.startswith(("/authorize", "/token"))]


def test_a_client_of_its_own_is_made_for_another_issuer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of the old login is sent there; the user is told in one line."""
    with server(tmp_path / "a") as one, server(tmp_path / "b") as other:
        one.log_in()
        before = one.stored()
        assert before.pop("issuer") == one.issuer
        one.name(other.issuer)
        with caplog.at_level(logging.WARNING):
            one.log_in()
    line = f"guarded has its logins at {other.issuer} now, not at {one.issuer} any more"
    assert [record.getMessage() for record in caplog.records].count(line) == 1
    heard = other.heard()
    assert "/token" in heard
    for secret in ("client", "access_token", "refresh_token"):
        assert before[secret] not in heard
    assert one.stored()["issuer"] == other.issuer


@pytest.fixture
def port() -> int:
    """One that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.mark.parametrize(
    ("first", "then"), [("one", "other"), ("one", "alias"), ("other", "none")], ids=str
)
def test_a_registered_client_is_kept_from_another_issuer(
    tmp_path: Path, port: int, first: str, then: str
) -> None:
    """Whatever the server names now, until the user logs out."""
    client = OAuthClient(
        client_id="our-id", client_secret=SECRET, callback_port=port, scope="tools"
    )
    known = f"our-id {SECRET} {port}"
    with (
        server(tmp_path / "a", client, CLIENT=known) as one,
        server(tmp_path / "b", CLIENT=known) as other,
    ):
        alias = one.issuer.replace("127.0.0.1", "localhost")
        issuers = {"one": one.issuer, "other": other.issuer, "alias": alias, "none": ""}
        one.name(issuers[first])
        one.log_in()
        before, heard = one.login.path.read_bytes(), (one.heard(), other.heard())
        assert SECRET in heard[first == "other"]
        assert "&scope=tools" in heard[first == "other"]
        one.name(issuers[then])
        with pytest.raises(UpstreamError, match=r"oauth\.clientId belongs to another") as refused:
            one.log_in()
        assert one.login.path.read_bytes() == before
        said = one.heard().removeprefix(heard[0]) + other.heard().removeprefix(heard[1])
        for secret in (*one.login.secrets, SECRET, "our-id"):
            assert secret not in said + str(refused.value)
        assert one.login.forget()
        if then == "alias":
            return  # the server answers for one name alone
        one.log_in()
        issuer = json.loads(one.login.path.read_bytes())["issuer"]
        assert issuer.rstrip("/") == (issuers[then] or one.issuer).rstrip("/")


@pytest.mark.parametrize(
    ("more", "shown"), [({"ISS": "https://evil.example"}, False), ({}, True)], ids=["other", "none"]
)
def test_an_error_of_another_issuer_is_not_shown(
    tmp_path: Path,
    more: dict[str, str],
    shown: bool,  # noqa: FBT001 - of the table
) -> None:
    reason = "call this number"
    with server(tmp_path / "a", None, DENIES=reason, **more) as one:
        with pytest.raises(UpstreamError) as refused:
            one.log_in()
        assert (reason in str(refused.value)) is shown
        assert ("iss mismatch" in str(refused.value)) is not shown
