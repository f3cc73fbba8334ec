"""Servers and tools are added, removed, turned off and on by commands, for every door at once."""

import json
from collections.abc import Generator
from typing import Any

import pytest
from tests.stdio_sessions import session
from tests.support import FUZZY, Cli, Scripted, create_token, fetch, tool, until
from tests.surfaces.sights import SIGHTS, Visitor, call

TOOLS = {"aardvark": ("northward", "southward"), "beetle": ("eastward",)}
ALL = {"northward", "southward", "eastward"}
STEPS: dict[str, tuple[list[list[str]], set[str]]] = {
    "a tool off": ([["disable", "aardvark__southward"]], ALL - {"southward"}),
    "two more off": ([["disable", "aardvark:*", "bee*"]], set()),
    "all on": ([["enable", "*vark__*", "beetle"]], ALL),
    "removed": ([["remove", "beetle"]], ALL - {"eastward"}),
    "added": ([["add", "beetle", "--"]], ALL),
}
"""Commands in their order, and the tools that there are then."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Generator[Visitor]:
    home = tmp_path_factory.mktemp("switches")
    scripted = Scripted(home)
    cli = Cli(home, FUZZY)
    cli.configure(
        **{
            name: scripted(*(tool(each, f"Goes {each}") for each in tools))
            for name, tools in TOOLS.items()
        }
    )
    with cli:
        yield Visitor(cli, cli.start_gateway())


@pytest.mark.requirement("config:switches")
def test_each_door_follows_each_command(place: Visitor) -> None:
    """No door waits: when a command has ended, the gateway has taken it over."""
    path = place.cli.home / ".toolscript.json"
    beetle = json.loads(path.read_text("utf-8"))["mcpServers"]["beetle"]
    for step, (commands, wanted) in STEPS.items():
        for words in commands:
            program = [beetle["command"], *beetle["args"]] if words[0] == "add" else []
            done = place.cli(*words, *program)
            assert done.returncode == 0, done.stderr
        for name, door in SIGHTS.items():
            text = door(place)
            assert {each for each in ALL if each in text} == wanted, (step, name)
        for server, tools in TOOLS.items():
            for each in tools:
                outcome = {"called" if each in wanted else "refused"}
                assert call(place, f"{server}__{each}") == outcome, (step, each)


@pytest.fixture
def site(cli: Cli, scripted: Scripted) -> Cli:
    """A gateway of two servers; the configuration disables the second."""
    cli.env = FUZZY
    cli.configure(
        one=scripted(tool("up"), tool("down")), two={**scripted(tool("left")), "disabled": True}
    )
    cli.start_gateway()
    return cli


def said(cli: Cli, *words: str) -> str:
    done = cli(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(cli: Cli, *words: str) -> str:
    done = cli(*words)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stdout == ""
    return done.stderr.removeprefix("toolscript: ").strip()


def states(cli: Cli) -> dict[str, tuple[str, int]]:
    listed = cli.json("list-servers")["servers"]
    return {each["name"]: (each["state"], each["tools"]) for each in listed}


@pytest.mark.requirement("config:switches")
def test_the_file_and_the_errors_say_that_a_tool_is_off(site: Cli) -> None:
    path = site.home / ".toolscript.json"
    before = path.read_bytes()
    for name in ("one:down", "one__down"):
        assert said(site, "disable", name) == "one: ready; 1 tool\n"
        entry = json.loads(path.read_bytes())["mcpServers"]["one"]
        assert entry["excludeTools"] == ["down"]
    line = "one__down is turned off (back: toolscript enable one__down)"
    assert line in site("call", "one__down").stderr
    assert line in said(site, "search", "down", "--why", "one__down", "--threshold", "0")
    assert "one__down" not in json.dumps(fetch(site.record()["url"], "/servers")[1])
    assert said(site, "enable", "one__down") == "one: ready; 2 tools\n"
    assert path.read_bytes() == before


def test_the_gateway_counts_the_tools_that_are_on(site: Cli) -> None:
    """As it did at its start, and as the list of servers does."""
    assert said(site, "gateway", "status").endswith(", 2 tools\n")
    said(site, "disable", "one__down")
    assert said(site, "gateway", "status").endswith(", 1 tool\n")
    assert states(site)["one"] == ("ready", 1)


def test_a_server_that_its_entry_disables_is_turned_on(site: Cli) -> None:
    assert said(site, "enable", "two") == "two: ready; 1 tool\n"
    assert states(site)["two"] == ("ready", 1)
    assert said(site, "disable", "two") == "two: disabled\n"
    assert states(site)["two"] == ("disabled", 0)


def test_what_a_project_states_is_changed_in_its_file(site: Cli) -> None:
    """The project's entry names no command, so the user's counts when it is gone."""
    project = site.home / "project"
    project.mkdir()
    path = project / ".toolscript.json"
    path.write_text('{"mcpServers": {"one": {"disabled": true}}}')
    assert site("trust", "--yes", cwd=project).returncode == 0
    before = (site.home / ".toolscript.json").read_bytes()
    message = f"the project's {path} states 'one'; change it with --project"
    for verb in ("enable", "disable"):
        done = site(verb, "one", cwd=project)
        assert (done.returncode, done.stderr) == (2, f"toolscript: {message}\n")
    assert (site.home / ".toolscript.json").read_bytes() == before
    done = site("enable", "*", cwd=project)
    assert (done.returncode, done.stdout) == (0, "two: ready; 1 tool\n")
    assert message in done.stderr
    done = site("enable", "one", "--project", cwd=project)
    assert (done.returncode, done.stdout) == (0, "one: ready; 2 tools\n")


def test_what_else_keeps_it_off_is_named(site: Cli) -> None:
    """And nothing is written."""
    path = site.home / ".toolscript.json"
    document = json.loads(path.read_bytes())
    document["mcpServers"]["one"] |= {"disabledTools": ["d*"]}
    document["mcpServers"]["three"] = document["mcpServers"]["one"]
    path.write_text(json.dumps(document | {"disabledMcpServers": ["three"]}), "utf-8")
    before = path.read_bytes()
    keeps = f"includeTools or excludeTools of 'one' in {path} keeps 'down' off; edit it yourself"
    assert refused(site, "enable", "one__down") == keeps
    in_a_list = f"{path} turns 'three' off in a list; edit it yourself"
    assert refused(site, "enable", "three") == in_a_list
    assert path.read_bytes() == before
    path.chmod(0o400)
    assert refused(site, "disable", "one") == f"{path} was not changed: it is read-only"
    path.chmod(0o600)
    assert said(site, "enable", "one__d*") == "one: ready; 2 tools\n"
    assert "disabledTools" not in json.loads(path.read_bytes())["mcpServers"]["one"]


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_what_does_not_exist_is_refused_with_the_nearest_names(site: Cli, verb: str) -> None:
    assert "no server is called 'ones'; the nearest are: one" in refused(site, verb, "ones")
    nearest = "no tool is called 'one__dwn'; the nearest are: one__down"
    assert nearest in refused(site, verb, "one__dwn")
    assert "no server is called 'n'" in refused(site, verb, "n__*")
    assert "no server is called 'nothere'; see: " in refused(site, verb, "nothere")
    before = (site.home / ".toolscript.json").read_bytes()
    said(site, "disable", "one__down")
    assert "one__down" in refused(site, verb, "one__dwn")
    said(site, "enable", "one__down")
    assert (site.home / ".toolscript.json").read_bytes() == before


def test_it_works_without_a_gateway(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    cli.configure(one=scripted(tool("up"), tool("down")))
    assert said(cli, "disable", "one__down") == "one: ready; 1 tool\n"
    assert "one__down" not in said(cli, "list-tools")
    assert "one__up" in said(cli, "list-tools")


@pytest.mark.parametrize("runs", [True, False], ids=["gateway", "alone"])
def test_a_tool_of_a_server_that_is_not_in_use_says_why(
    cli: Cli, scripted: Scripted, *, runs: bool
) -> None:
    """Not that there is no such tool, nor a server's that is spelled like it."""
    cli.env = FUZZY
    ones = scripted(tool("up"))
    cli.configure(
        one=ones, ones=ones, two={**ones, "disabled": True}, three={"command": 5}, four={**ones}
    )
    if runs:
        cli.start_gateway()
    said(cli, "disable", "one")
    said(cli, "disable", "fo*")
    for name, reason in {
        "one__up": "one is turned off (back: toolscript enable one)",
        "two:up": "two is turned off (back: toolscript enable two)",
        "three__up": f"its server three is invalid: {cli.home / '.toolscript.json'}: command is 5",
        "four__up": "four is turned off (back: toolscript enable four)",
    }.items():
        assert refused(cli, "call", name, "{}").startswith(reason)
        assert refused(cli, "describe", name).startswith(reason)
        assert reason in said(cli, "search", "up", "--why", name)
    said(cli, "enable", "four")
    assert said(cli, "describe", "four__up")


def test_the_way_back_is_for_the_owner(site: Cli) -> None:
    token = create_token(site, "--server", "two")["token"]
    headers = {"Authorization": f"Bearer {token}"}
    url, asked = site.record()["url"], {"tool": "two__left"}
    status, answer = fetch(url, "/tools", asked, headers=headers)
    assert (status, answer["error"]) == (404, "two is turned off")


def test_the_list_of_a_session_keeps_its_bytes(site: Cli) -> None:
    """Another exposure's changes, and its client is told."""
    with session(site) as plain, session(site, "--exposure", "all") as proxy:
        before = plain.ask("tools/list")
        assert len(proxy.ask("tools/list")["tools"]) == 3
        said(site, "disable", "one__down")
        said(site, "enable", "two")
        until(lambda: _told(proxy), "it is told")
        names = [each["name"] for each in proxy.ask("tools/list")["tools"]]
        assert names == ["read_result", "one__up", "two__left"]
        assert plain.ask("tools/list") == before
        assert not _told(plain)


def _told(one: Any) -> bool:
    one.ask("ping")
    return any(each.get("method", "").endswith("tools/list_changed") for each in one.others)
