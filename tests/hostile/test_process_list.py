"""Every user of a machine sees the arguments of its programs: no secret is among them."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.servers.logins import oauth_server
from tests.servers.stand_in_browser import arguments
from tests.stdio_sessions import Session
from tests.support import FUZZY, PATIENCE_S, READ_FILE, Cli, Scripted
from toolscript.config.settings import Settings

pytestmark = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
SECRET = "correct-horse-of-no-other-test"  # noqa: S105 - others run servers meanwhile
BROWSER = Path(__file__).parents[1] / "servers" / "stand_in_browser.py"


def browse(cli: Cli, *words: str, browser: str = "") -> "subprocess.CompletedProcess[str]":
    """Runs a command, with a browser that writes what it notes into ``notes``.

    It is a process of its own: one that was forked would not have the command's arguments.
    """
    notes = cli.home / "notes"
    env = {"BROWSER": browser or f"{sys.executable} {BROWSER} {notes} %s"}
    return subprocess.run(
        cli.command(*words),
        env=cli.environment(env),
        cwd=cli.home,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def notes(cli: Cli) -> Any:
    return json.loads((cli.home / "notes").read_text("utf-8"))


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def piped(cli: Cli, *words: str) -> "subprocess.Popen[bytes]":
    """Begins a command, as `browse` does."""
    return subprocess.Popen(
        cli.command(*words),
        env=cli.environment({"TOOLSCRIPT_PORT": "0"}),
        cwd=cli.home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def check_hidden(*secrets: str, shown: list[str]) -> None:
    """Fails where one of the secrets is in the argument of a process."""
    assert all(len(each) >= 12 for each in secrets), secrets
    assert not [line for line in shown for each in secrets if each in line]


@pytest.fixture
def door(cli: Cli, scripted: Scripted) -> Cli:
    cli.env = FUZZY
    cli.configure(files=scripted(READ_FILE) | {"env": {"API_TOKEN": SECRET}})
    return cli


def test_the_page_is_opened_without_its_link_in_an_argument(door: Cli) -> None:
    done = browse(door, "gateway", "page")
    url = door.record()["url"]
    assert (done.returncode, done.stdout) == (0, f"opened {url} in your browser\n"), done.stderr
    noted = notes(door)
    code = query(noted["url"])["code"]
    assert any("stand_in_browser" in line for line in noted["arguments"])
    check_hidden(code, door.record()["key"], shown=noted["arguments"])
    assert noted["mode"] == 0o700
    assert not Path(noted["file"]).parent.exists(), "it is deleted once it has been used"


def test_without_a_browser_the_link_is_printed(door: Cli) -> None:
    done = browse(door, "gateway", "page", browser="false %s")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{door.record()['url']}/ui/enter?code=")


def test_a_login_is_begun_without_its_state_in_an_argument(cli: Cli) -> None:
    with oauth_server(ROTATING=str(cli.home / "rotating"), CLOSED=str(cli.home / "closed")) as url:
        cli.configure(guarded={"url": url})
        done = browse(cli, "auth", "guarded")
    assert (done.returncode, done.stdout) == (0, "logged in to guarded\n"), done.stderr
    noted = notes(cli)
    check_hidden(query(noted["url"])["state"], shown=noted["arguments"])
    assert not Path(noted["file"]).parent.exists()


def test_no_process_of_a_command_has_a_secret_in_its_arguments(door: Cli) -> None:
    """The gateway, its server, the bridge, and a search."""
    door.env = {**FUZZY, "TOOLSCRIPT_SECRET_KEY": "s3cret-key-of-all-gateways-0123456789"}
    shown: list[str] = []
    with piped(door, "mcp") as process:
        one = Session(process)
        one.open()
        one.call("files:read_file", path="a.txt")
        assert browse(door, "search", "read a file").returncode == 0
        shown += arguments()
        assert process.stdin
        process.stdin.close()
    secrets = [door.record()["key"], door.env["TOOLSCRIPT_SECRET_KEY"], SECRET]
    assert door("gateway", "stop").returncode == 0
    assert browse(door, "gateway", "start", "--port", "0").returncode == 0
    shown += arguments()
    secrets.append(door.record()["key"])
    for expected in (" mcp ", "--on-demand", " --port 0 "):
        assert any(expected in line for line in shown), expected
    check_hidden(*secrets, shown=shown)


def test_no_setting_that_is_secret_has_a_flag() -> None:
    groups = dataclasses.fields(Settings)
    settings = [each for group in groups for each in dataclasses.fields(cast("Any", group.type))]
    secret = [each for each in settings if not each.repr]
    assert len(secret) >= 5
    assert not [each.name for each in secret if each.metadata["flag"]]
