"""``toolscript add`` and ``remove``, and ``enable`` and ``disable`` with a project's file."""

import json
import stat
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.servers.in_thread import serve_in_thread
from tests.support import FUZZY, Cli, Scripted, tool

COMMENTED = """{
    // mine
    "mcpServers": {
        "old": {"command": "x", "disabled": true}, // off
    },
}
"""


@pytest.fixture
def home(cli: Cli) -> Path:
    cli.env = FUZZY
    return cli.home


@pytest.fixture
def program(scripted: Scripted) -> list[str]:
    """The command of a server with two tools."""
    entry = scripted(tool("up"), tool("down"))
    return [entry["command"], *entry["args"]]


@pytest.fixture
def locked() -> Generator[str]:
    """The address of a server that asks for a login."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

    with serve_in_thread(Handler) as port:
        yield f"http://127.0.0.1:{port}/mcp"


def servers(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))["mcpServers"]


def said(cli: Cli, *words: str, **more: Any) -> str:
    done = cli(*words, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(cli: Cli, *words: str, **more: Any) -> str:
    done = cli(*words, **more)
    assert done.returncode == 2, (done.stdout, done.stderr)
    return done.stderr.removeprefix("toolscript: ").strip()


def test_the_first_server_makes_the_file(cli: Cli, home: Path, program: list[str]) -> None:
    path = home / ".toolscript.json"
    assert said(cli, "add", "one", "--env", "A=b=c", "--", *program) == (
        f"added one to {path}\none: ready; 2 tools\n"
    )
    assert servers(path) == {
        "one": {"command": program[0], "args": program[1:], "env": {"A": "b=c"}}
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert said(cli, "remove", "one") == f"removed one from {path}\n"
    assert servers(path) == {}


def test_the_rest_of_a_file_stays(cli: Cli, home: Path, program: list[str]) -> None:
    """Its comments, its mode, and the link by which it is reached."""
    path, real = home / ".toolscript.json", home / "dotfiles.json"
    real.write_text(COMMENTED, "utf-8")
    real.chmod(0o644)
    path.symlink_to(real)
    said(cli, "add", "one", "--", *program)
    text = real.read_text("utf-8")
    begin, end = text.index('        "one"'), text.index("    },\n}")
    assert text[:begin] + text[end:] == COMMENTED
    assert (path.is_symlink(), stat.S_IMODE(real.stat().st_mode)) == (True, 0o644)
    said(cli, "remove", "one")
    assert real.read_text("utf-8") == COMMENTED


def test_a_server_goes_where_the_others_are(cli: Cli, home: Path, program: list[str]) -> None:
    file = home / "code.json"
    file.write_text('{"mcp": {"servers": {"old": {"command": "x", "disabled": true}}}}', "utf-8")
    said(cli, "add", "one", "--config", str(file), "--", *program)
    assert [*json.loads(file.read_text("utf-8"))["mcp"]["servers"]] == ["old", "one"]
    toml = home / "config.toml"
    toml.write_text('# mine\n[mcp_servers.old]\ncommand = "x"\nenabled = false\n', "utf-8")
    said(cli, "add", "one", "--config", str(toml), "--", *program)
    assert toml.read_text("utf-8").startswith("# mine\n[mcp_servers.old]\n")
    said(cli, "remove", "one", "--config", str(toml))
    assert "one" not in toml.read_text("utf-8")


@pytest.mark.requirement("config:switches")
def test_the_outcome_is_told(cli: Cli, home: Path, locked: str) -> None:
    """A login that is needed, a program that is not there; the entry is written all the same."""
    key = ("--header", "X-Team: ours", "--type", "http")
    assert "toolscript auth tracker" in said(cli, "add", "tracker", locked, *key)
    assert servers(home / ".toolscript.json")["tracker"] == {
        "type": "http",
        "url": locked,
        "headers": {"X-Team": "ours"},
    }
    assert "gone: failed; " in said(cli, "add", "gone", "no-such-program")
    assert "there: failed; " in said(cli, "add", "there", str(home / "no.such/program"))
    (home / "a.b").mkdir()
    (home / "a.b" / "program").touch()
    assert "file: failed; " in said(cli, "add", "file", "a.b/program", cwd=home)


def test_an_entry_that_cannot_be_read_is_not_written(
    cli: Cli, home: Path, program: list[str]
) -> None:
    path = home / ".toolscript.json"
    for words, message in {
        ("a__b", "x"): "a name may not contain '__' or end in '_' (tools are called server__tool)",
        ("toolscript", "x"): "in names that begin with its",
        ("ts", "toolscript", "mcp"): "it is toolscript itself",
        ("x", "run", "${NO_SUCH}"): "args needs ${NO_SUCH}, which is not set in the environment",
        ("x", "http://"): "url is",
        ("x", "web.example/mcp?key=s3cr3t"): "no such program; an address begins with https://",
        ("x", "localhost:8080"): "no such program; an address begins with https://",
        ("x", "run", "--env", "SECRET"): "--env has no '='; expected NAME=VALUE",
        ("x", "run", "--header", "A:b"): "--header is for a server with a URL",
        ("x", "http://a.example", "--env", "A=b"): "--env is for a server with a command",
        ("x", "http://a.example", "--header", "s3cr3t"): "--header has no ':'",
    }.items():
        problem = refused(cli, "add", *words)
        assert message in problem
        assert "s3cr3t" not in problem
        assert not path.exists(), words
    said(cli, "add", "one", "--", *program)
    before = path.read_bytes()
    assert refused(cli, "add", "one", "x") == (
        f"{path} has a server 'one'; first: toolscript remove one"
    )
    assert refused(cli, "remove", "onee") == (
        f"{path}: no server is called 'onee'; the nearest are: one"
    )
    assert path.read_bytes() == before


@pytest.mark.requirement("config:switches")
def test_a_project_stays_trusted_only_if_it_was(
    cli: Cli, home: Path, program: list[str], scripted: Scripted
) -> None:
    cli.configure(mine=scripted(tool("left")))
    project = home / "project"
    project.mkdir()
    path = project / ".toolscript.json"
    done = said(cli, "add", "one", "--project", "--", *program, cwd=project)
    assert done == f"added one to {path}\none: ready; 2 tools\n"  # the file is new
    assert "two: ready" in said(cli, "add", "two", "--project", "--", *program, cwd=project)
    path.write_text(path.read_text("utf-8") + "\n", "utf-8")  # by somebody
    done = said(cli, "add", "three", "--project", "--", *program, cwd=project)
    assert "three: not used here" in done
    assert [each["name"] for each in _listed(cli, project)] == ["mine"]
    assert "two" not in said(cli, "remove", "three", "--project", cwd=project).split()


def _listed(cli: Cli, cwd: Path) -> list[Any]:
    return json.loads(said(cli, "list-servers", "--output", "json", cwd=cwd))["servers"]


def test_servers_are_turned_off_and_on_in_a_projects_file(
    cli: Cli, home: Path, scripted: Scripted
) -> None:
    cli.configure(mine=scripted(tool("left")))
    project = home / "project"
    project.mkdir()
    path = project / ".toolscript.json"
    one = scripted(tool("up"), tool("down")) | {"disabledTools": ["x*"]}
    path.write_text(json.dumps({"mcpServers": {"one": one}}), "utf-8")
    said(cli, "trust", "--yes", str(path))

    def turn(*words: str) -> str:
        return said(cli, *words, "--project", cwd=project)

    assert turn("disable", "one__down") == "one: ready; 1 tool\n"
    assert servers(path)["one"]["disabledTools"] == ["x*", "down"]
    assert turn("enable", "one__*") == "one: ready; 2 tools\n"
    assert "disabledTools" not in servers(path)["one"]
    assert turn("disable", "one") == "one: disabled\n"
    assert servers(path)["one"]["disabled"] is True
    assert turn("enable", "one") == "one: ready; 2 tools\n"
    assert "disabled" not in servers(path)["one"]
    assert "has no entry 'mine' to change" in refused(
        cli, "disable", "mine__left", "--project", cwd=project
    )
    assert turn("disable", "mine") == "mine: disabled\n"
    assert servers(path)["mine"] == {"disabled": True}
    assert turn("enable", "mine") == "mine: ready; 1 tool\n"
    assert "mine" not in servers(path)
