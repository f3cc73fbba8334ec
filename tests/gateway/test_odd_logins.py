"""Logins at servers that answer in another form than the specification's, as real ones do."""

import json
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.servers.logins import oauth_server, visit
from tests.surfaces.oauth_flow import INITIALIZE
from toolscript.errors import UpstreamError
from toolscript.gateway.oauth.browser import log_in
from toolscript.gateway.oauth.login import Login
from toolscript.types import ServerSpec

pytestmark = pytest.mark.requirement("upstream:transports")


def _log_in(folder: Path, kind: str, **variables: str) -> dict[str, str]:
    """Logs in to a server of this kind, and returns what is stored."""

    def show(address: str) -> None:
        visit(address)

    with oauth_server(ODD=kind, **variables) as url:
        spec = ServerSpec(name="odd", transport="http", url=url)
        log_in(folder, spec, show)
        return json.loads(Login(folder, spec).path.read_bytes())["tokens"]


@pytest.mark.parametrize("kind", ["slash", "form", "always-form", "fields", "forbidden"])
def test_a_login_succeeds(tmp_path: Path, kind: str) -> None:
    tokens = _log_in(tmp_path, kind)
    assert tokens["access_token"].startswith("acc-")
    assert tokens["refresh_token"].startswith("ref-")
    assert tokens["expires_in"] == 3600
    assert tokens.get("scope") == ("read write" if kind == "fields" else None)


@pytest.mark.parametrize(
    ("kind", "reason"), [("error", "invalid_code"), ("empty", "the answer has no access_token")]
)
def test_the_reason_of_a_refusal_is_the_servers(tmp_path: Path, kind: str, reason: str) -> None:
    with pytest.raises(UpstreamError, match=reason) as refused:
        _log_in(tmp_path, kind)
    assert "pydantic" not in str(refused.value)


@pytest.mark.parametrize("kind", ["form", "always-form", "fields"])
def test_a_token_is_refreshed(tmp_path: Path, kind: str) -> None:
    def show(address: str) -> None:
        visit(address)

    async def ask(url: str, login: Login) -> int:
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(auth=login.refreshing(), headers=headers) as client:
            return (await client.post(url, json=INITIALIZE)).status_code

    withdrawn, refreshes = tmp_path / "withdrawn", tmp_path / "refreshes"
    with oauth_server(ODD=kind, ROTATING=str(withdrawn), REFRESHES=str(refreshes)) as url:
        spec = ServerSpec(name="odd", transport="http", url=url)
        log_in(tmp_path, spec, show)
        withdrawn.touch()
        assert anyio.run(ask, url, Login(tmp_path, spec)) == 200
    assert refreshes.read_text("utf-8") == "new\n"


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:1", "http://127.0.0.1:1/"])
def test_another_issuer_stays_refused(tmp_path: Path, issuer: str) -> None:
    with pytest.raises(UpstreamError, match="iss mismatch"):
        _log_in(tmp_path, "slash", ISS=issuer)
