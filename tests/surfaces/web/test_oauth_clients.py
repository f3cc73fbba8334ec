"""The clients of both SDKs log in by themselves, with the owner's consent in a real browser."""

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect
from tests import launcher
from tests.clients.driver import PACKAGES, PROGRAMS
from tests.compilers import NODE
from tests.servers.certificates import make_pair
from tests.servers.documents import Documents, document_server
from tests.servers.in_thread import serve_in_thread
from tests.support import FUZZY, READ_FILE, ROOT, Cli, Scripted, until
from tests.surfaces.web.chromium import Chromium, axe_problems, launched, overflow

GATEWAY = ROOT / "tests" / "servers" / "oauth_gateway.py"
CADDY = Path(sys.executable).parent / "caddy"
CLIENTS = {
    "Python SDK": [sys.executable, str(PROGRAMS / "oauth.py")],
    "TypeScript SDK": [str(NODE), str(PROGRAMS / "oauth.cjs")],
}
TOOLS = {"search_tools", "call_destructive_tool"}


class Program:
    """A client, which says in lines how far it is."""

    def __init__(self, process: "subprocess.Popen[str]", visits: list[str]) -> None:
        self._process = process
        self.visits = visits
        """The queries with which a browser came to its address."""

    def says(self, line: str = "") -> dict[str, Any]:
        """What it says after this line."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def callback() -> Generator[tuple[str, list[str]]]:
    """An address to which browsers come back, and the queries of those that did."""
    visits: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = urlsplit(self.path)
            if place.path == "/callback":
                visits.append(place.query)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"done")

    with serve_in_thread(Handler) as port:
        yield f"http://127.0.0.1:{port}/callback", visits


@contextmanager
def program(
    name: str, url: str, home: Path, env: Mapping[str, str] | None = None, **more: str
) -> Generator[Program]:
    """A client of an SDK that connects to an address."""
    with callback() as (redirect, visits):
        argument = json.dumps({"url": url, "redirect": redirect, **more})
        own = {"PATH": os.environ["PATH"], "HOME": str(home), "NODE_PATH": str(PACKAGES)}
        with (
            (home / "client.log").open("w+", encoding="utf-8") as log,
            subprocess.Popen(
                [*CLIENTS[name], argument],
                env={**own, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            try:
                yield Program(process, visits)
            except BaseException as problem:  # also the end of the test's time
                problem.add_note((home / "client.log").read_text("utf-8")[-4000:])
                raise
            finally:
                process.kill()


@pytest.fixture(scope="module")
def engine() -> Generator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Generator[Documents]:
    with document_server(tmp_path_factory.mktemp("documents")) as documents:
        yield documents


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, documents: Documents, engine: Any
) -> Generator[tuple[Cli, Chromium]]:
    """A gateway, and a browser in which its owner is logged in."""
    home = tmp_path_factory.mktemp("oauth")
    config = home / ".toolscript.json"
    cli = Cli(home, {**FUZZY, "TOOLSCRIPT_CONFIG": str(config)})
    cli.configure(files=Scripted(home)(READ_FILE))
    written = json.loads(config.read_text("utf-8")) | {"profiles": {"reader": ["files"]}}
    config.write_text(json.dumps(written), "utf-8")
    env = cli.environment({"TOOLSCRIPT_OAUTH": "true", "TOOLSCRIPT_PORT": "0"})
    with launcher.helper(GATEWAY, str(documents.certificate), env=env):
        until(lambda: cli.records, "the gateway listens")
        with cli:
            browser = Chromium(engine, cli.record()["url"])
            browser.log_in(cli("gateway", "page", "--print").stdout.strip())
            yield cli, browser


def consent(browser: Chromium, client: Program, url: str, *, answer: str = "Allow") -> str:
    """Answers in the browser, as its user; returns the query that reached the client."""
    before = len(client.visits)
    with browser.page(url.removeprefix(browser.url)) as page:
        page.get_by_role("button", name=answer).click()
        expect(page).to_have_url(re.compile(r"/callback\?"))
    until(lambda: len(client.visits) > before, "the browser comes back")
    return client.visits[-1]


@pytest.mark.requirement("http:oauth")
@pytest.mark.parametrize("way", ["by registration", "by document"])
@pytest.mark.parametrize("name", CLIENTS)
def test_it_logs_in(
    name: str, way: str, site: tuple[Cli, Chromium], documents: Documents, tmp_path: Path
) -> None:
    """Until the owner revokes the token: then it has to ask again."""
    if name.startswith("TypeScript") and not PACKAGES.is_dir():
        pytest.fail(f"{PACKAGES} does not exist; run: bash scripts/test", pytrace=False)
    cli, browser = site
    more = dict[str, str]()
    if way == "by document":
        more["document"] = documents.put("/client.json")
    with program(name, f"{browser.url}/mcp", tmp_path, None, **more) as client:
        query = consent(browser, client, client.says()["authorize"])
        assert set(client.says(query)["tools"]) >= TOOLS
        assert set(client.says()["tools"]) >= TOOLS
        shown = "Documented (localhost:" if more else f"{name} (127.0.0.1:"
        [token] = [t for t in cli.json("token", "list")["tokens"] if t["name"].startswith(shown)]
        assert cli("token", "revoke", token["id"]).returncode == 0
        assert "authorize" in client.says()


@pytest.mark.requirement("http:oauth")
def test_it_is_told_that_the_owner_refuses(site: tuple[Cli, Chromium], tmp_path: Path) -> None:
    cli, browser = site
    with program("Python SDK", f"{browser.url}/mcp", tmp_path) as client:
        url = client.says()["authorize"]
        with browser.page(url.removeprefix(browser.url)) as page:
            assert axe_problems(page) == []
            assert overflow(page) == 0
        query = consent(browser, client, url, answer="Deny")
        assert "error=access_denied" in query
        assert "error" in client.says(query)
    assert not cli.json("token", "list")["tokens"]


@pytest.mark.requirement("http:oauth")
def test_who_is_not_logged_in_is_told_how(site: tuple[Cli, Chromium], tmp_path: Path) -> None:
    """And so is a browser that comes from another site, whose visit brings no cookie."""
    _, browser = site
    stranger = Chromium(browser.browser, browser.url)
    with program("Python SDK", f"{browser.url}/mcp", tmp_path) as client:
        path = client.says()["authorize"].removeprefix(browser.url)
        with stranger.page(path, said="401") as page:
            expect(page.get_by_role("heading", name="Log in")).to_be_visible()
            expect(page.get_by_role("button", name="Allow")).to_have_count(0)


@pytest.mark.requirement("http:oauth")
def test_a_visit_from_another_site_sees_the_question(
    site: tuple[Cli, Chromium], tmp_path: Path
) -> None:
    _, browser = site
    with program("Python SDK", f"{browser.url}/mcp", tmp_path) as client:
        url = client.says()["authorize"]
        other = browser.url.replace("127.0.0.1", "localhost")  # a site that is not the gateway's
        with browser.page() as page:
            page.route(
                f"{other}/elsewhere",
                lambda route: route.fulfill(
                    body=f'<link rel="icon" href="data:,"><a href="{escape(url)}">connect</a>',
                    content_type="text/html",
                ),
            )
            page.goto(f"{other}/elsewhere")
            page.get_by_text("connect").click()
            expect(page.get_by_role("button", name="Allow")).to_be_visible()


@contextmanager
def https_proxy(home: Path, port: int, target: str) -> Generator[Path]:
    """The proxy of the guide before a gateway; its certificate."""
    pair = make_pair(home, "proxy", "localhost")
    file = home / "Caddyfile"
    file.write_text(
        "{\nadmin off\nauto_https disable_redirects\n}\n"
        f"https://localhost:{port} {{\ntls {pair.file} {pair.key}\nreverse_proxy {target}\n}}\n"
    )
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    command = [CADDY, "run", "--config", file, "--adapter", "caddyfile"]
    with (
        (home / "caddy.log").open("w") as log,
        subprocess.Popen(command, env=env, stderr=log, stdout=log) as process,
    ):
        try:
            until(lambda: _listens(port), "the proxy listens")
            yield pair.file
        finally:
            process.kill()


def _listens(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.requirement("http:oauth")
@pytest.mark.skipif(not CADDY.exists(), reason="PyPI has no Caddy for this system")
def test_it_logs_in_over_https_at_the_public_address(tmp_path: Path, engine: Any) -> None:
    """As claude.ai does: a proxy with HTTPS stands before a gateway on the loopback address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    public = f"https://localhost:{port}"
    cli = Cli(tmp_path, {**FUZZY, "TOOLSCRIPT_PUBLIC_URL": public})
    cli.configure(files=Scripted(tmp_path)(READ_FILE))
    url = cli.start_gateway("--oauth")
    with cli, https_proxy(tmp_path, port, url.removeprefix("http://")) as certificate:
        link = cli("gateway", "page", "--print").stdout.strip()
        assert link.startswith(f"{public}/ui/enter?code=")
        context = engine.new_context(ignore_https_errors=True)
        page: Page = context.new_page()
        page.goto(link)
        [cookie] = context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        env = {"SSL_CERT_FILE": str(certificate), "NODE_EXTRA_CA_CERTS": str(certificate)}
        for name in CLIENTS:
            with program(name, f"{public}/mcp", tmp_path, env) as client:
                page.goto(client.says()["authorize"])
                page.get_by_role("button", name="Allow").click()
                expect(page).to_have_url(re.compile(r"/callback\?"))
                until(lambda client=client: client.visits, "the browser comes back")
                assert f"iss=https%3A%2F%2Flocalhost%3A{port}" in client.visits[0]
                assert set(client.says(client.visits[0])["tools"]) >= TOOLS
        context.close()
