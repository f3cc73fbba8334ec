"""The document by which a gateway is known to the servers that it logs in to."""

import json
from pathlib import Path

import pytest
from tests import launcher
from tests.servers.documents import document_server
from tests.servers.logins import login_under_way, visit
from tests.support import FUZZY, READ_FILE, ROOT, Cli, Scripted, fetch, until
from tests.surfaces.oauth_flow import led
from tests.surfaces.web.browser import Browser

GATEWAY = ROOT / "tests" / "servers" / "oauth_gateway.py"


@pytest.fixture
def public(tmp_path: Path) -> Cli:
    """A configuration of a gateway with a public address."""
    home = tmp_path / "public"
    home.mkdir()
    return Cli(home, {**FUZZY, "TOOLSCRIPT_PUBLIC_URL": "https://tools.example.com/"})


@pytest.mark.requirement("http:oauth")
def test_everybody_may_read_it(public: Cli) -> None:
    public.configure()
    url = public.start_gateway()
    try:
        status, document = fetch(url, "/oauth/client.json")
        assert status == 200
        assert document["client_id"] == "https://tools.example.com/oauth/client.json"
        assert document["redirect_uris"] == ["http://127.0.0.1/callback"]
        assert document["token_endpoint_auth_method"] == "none"  # noqa: S105 - the name of a method
        assert fetch(url, "/tools")[0] == 401, "a public gateway asks for a token"
        named = {"Host": "tools.example.com"}
        assert fetch(url, "/health", headers=named) == (200, {"status": "ready"})
        assert fetch(url, "/health", headers={"Host": "tools.example.com.evil"})[0] == 400
    finally:
        assert public("gateway", "stop").returncode == 0


@pytest.mark.requirement("http:oauth")
def test_a_login_uses_it_instead_of_a_registration(public: Cli, tmp_path: Path) -> None:
    """`toolscript auth` at a gateway that is itself the server, and reads documents."""
    home = tmp_path / "server"
    home.mkdir()
    config = home / ".toolscript.json"
    server = Cli(home, {**FUZZY, "TOOLSCRIPT_CONFIG": str(config)})
    server.configure(files=Scripted(home)(READ_FILE))
    env = server.environment({"TOOLSCRIPT_OAUTH": "true", "TOOLSCRIPT_PORT": "0"})
    with (
        document_server(tmp_path) as documents,
        launcher.helper(GATEWAY, str(documents.certificate), env=env),
    ):
        until(lambda: server.records, "the gateway listens")
        url = server.record()["url"]
        with server:
            owner = Browser(url).log_in(server)
            public.env["TOOLSCRIPT_PUBLIC_URL"] = documents.url
            public.configure(tracker={"url": f"{url}/mcp"})
            document = fetch(public.start_gateway(), "/oauth/client.json")[1]
            assert public("gateway", "stop").returncode == 0
            documents.put_bytes("/oauth/client.json", json.dumps(document).encode())
            with login_under_way("tracker", public.environment(), public.home) as (process, asks):
                page = owner.page(asks.removeprefix(url))
                assert page.one("h1").text == "May toolscript use your tools?"
                request = page.one("input", name="request").attributes["value"] or ""
                given = {"request": request, "answer": "allow", "profile": "", "days": "1"}
                answer = owner.send("/ui/authorize", **given)
                assert "code" in led(answer)
                assert visit(answer.headers["refresh"].removeprefix("0; url="))[0] == 200
                assert process.wait(30) == 0
            [token] = server.json("token", "list")["tokens"]
            assert token["name"] == f"toolscript ({documents.url.removeprefix('https://')})"
