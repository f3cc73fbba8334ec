"""A person logs in at a real provider, in a real browser, and lets a real client in."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.clients.driver import PACKAGES, PROGRAMS
from tests.compilers import NODE
from tests.servers.oidc import CLIENT, PEOPLE, SECRET
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, until
from tests.surfaces.web.chromium import Chromium, axe_problems, launched, overflow
from tests.surfaces.web.test_oauth_clients import Program, program

pytestmark = pytest.mark.skipif(
    not (PACKAGES / "oidc-provider").is_dir(),
    reason="npm's oidc-provider is not installed; run: bash scripts/test",
)


@contextmanager
def real_provider(redirect: str, home: Path) -> Generator[str]:
    """The address of a provider that knows the gateway at this address."""
    argument = {"client": CLIENT, "secret": SECRET, "redirect": redirect, "people": PEOPLE}
    command = [str(NODE), str(PROGRAMS / "oidc_provider.cjs"), json.dumps(argument)]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "NODE_PATH": str(PACKAGES)}
    with (
        (home / "provider.log").open("w") as log,
        subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Cli, Chromium]]:
    """A gateway of a company, and a browser in which nobody is logged in."""
    home = tmp_path_factory.mktemp("company")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with real_provider(f"{url}/ui/authorize/return", home) as issuer, launched() as engine:
        settings = {"TOOLSCRIPT_PORT": str(port)}
        cli, scripted = Cli(home, {**FUZZY, **settings}), Scripted(home)
        path = cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
        written = json.loads(path.read_text("utf-8"))
        written["profiles"] = {"reader": ["files"], "mailer": ["mail"]}
        written["issuer"] = {
            "url": issuer,
            "clientId": CLIENT,
            "clientSecret": SECRET,
            "profiles": {"engineering": "reader", "support": "mailer"},
        }
        path.write_text(json.dumps(written), "utf-8")
        done = cli("gateway", "start", "--oauth")
        assert done.returncode == 0, done.stderr
        with cli:
            yield cli, Chromium(engine, url)


def log_in(page: Page, name: str) -> None:
    """Logs in on the provider's own pages, and consents there that the gateway learns who it is."""
    page.get_by_placeholder("Enter any login").fill(name)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def lead(browser: Chromium, client: Program) -> AbstractContextManager[Page]:
    """The page to which a client sends the browser."""
    path = client.says()["authorize"].removeprefix(browser.url)
    # The provider's pages have styles of their own, which the gateway's policy does not concern.
    return browser.page(path, said=" ")


@pytest.mark.requirement("http:oidc")
def test_a_person_lets_a_client_in(site: tuple[Cli, Chromium], tmp_path: Path) -> None:
    cli, browser = site
    with program("Python SDK", f"{browser.url}/mcp", tmp_path) as client:
        with lead(browser, client) as page:
            log_in(page, "otto")
            expect(page.get_by_role("heading")).to_have_text("May Python SDK use your tools?")
            expect(page.get_by_text("You are logged in as otto.")).to_be_visible()
            options = page.get_by_role("combobox").first.get_by_role("option")
            expect(options).to_have_count(2)
            assert axe_problems(page) == []
            assert overflow(page) == 0
            page.get_by_role("combobox").first.select_option("mailer")
            page.get_by_role("button", name="Allow").click()
            expect(page).to_have_url(re.compile(r"/callback\?"))
        until(lambda: client.visits, "the browser comes back")
        assert "search_tools" in client.says(client.visits[-1])["tools"]
        [token] = cli.json("token", "list")["tokens"]
        assert token["name"].startswith("Python SDK (127.0.0.1:")
        assert (token["name"].endswith(" for otto"), token["profiles"]) == (True, ["mailer"])
        assert cli("token", "revoke", token["id"]).returncode == 0
        assert "authorize" in client.says()


@pytest.mark.requirement("http:oidc")
def test_a_guest_is_told_why_not(site: tuple[Cli, Chromium], tmp_path: Path) -> None:
    _, browser = site
    with (
        program("Python SDK", f"{browser.url}/mcp", tmp_path) as client,
        lead(browser, client) as page,
    ):
        log_in(page, "eve")
        expect(page.get_by_text("eve is in no group that may use this")).to_be_visible()
        expect(page.get_by_role("button", name="Allow")).to_have_count(0)
        assert not client.visits
