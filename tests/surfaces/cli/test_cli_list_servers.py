"""``toolscript list-servers``, and what ``list-tools`` says about servers."""

import json
from pathlib import Path

import pytest
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, post, tool

MEASURED = {"instances", "processes", "memoryMiB", "cpuSeconds"}


@pytest.fixture
def home(cli: Cli, scripted: Scripted) -> Cli:
    """Two servers whose tools are known."""
    cli.env = FUZZY | {"TOOLSCRIPT_IDLE_TIMEOUT": "0"}
    cli.configure(files=scripted(READ_FILE), mail=scripted(SEND_MAIL))
    assert cli("list-tools").returncode == 0
    return cli


@pytest.mark.both_storages
@pytest.mark.requirement("upstream:resources")
def test_the_columns_of_a_gateway_s_servers(home: Cli) -> None:
    """A resting server's cells are empty, and its figures 0."""
    url = home.start_gateway()
    assert post(url, "/tools/files__read_file", {})[0] == 200
    header, files, mail = home("list-servers", "--resources").stdout.splitlines()
    assert " ".join(header.split()) == (
        "Server State Tools Transport Instances Processes Memory CPU time What is wrong"
    )
    name, state, tools, transport, instances, processes, memory, mib, cpu, s = files.split()
    assert [name, state, tools, transport] == ["files", "ready", "1", "stdio"]
    assert [instances, processes, mib, s] == ["1", "1", "MiB", "s"]
    assert float(memory) > 1
    assert float(cpu) >= 0
    assert mail.split() == ["mail", "resting", "1", "stdio"]
    running, resting = home.json("list-servers", "--resources")["servers"]
    assert (running["instances"], running["processes"]) == (1, 1)
    assert [resting[field] for field in sorted(MEASURED)] == [0.0, 0, 0.0, 0]
    assert not any(MEASURED & set(server) for server in home.json("list-servers")["servers"])
    assert fetch(url, "/servers", {"resources": "perhaps"})[0] == 400


@pytest.mark.requirement("upstream:resources")
def test_without_a_gateway_only_what_the_command_starts_is_measured(home: Cli) -> None:
    for server in home.json("list-servers", "--resources")["servers"]:
        assert (server["state"], server["processes"]) == ("resting", 0)
    done = home("list-servers", "--resources", "--refresh", "--output", "json")
    processes = [server["processes"] for server in json.loads(done.stdout)["servers"]]
    assert processes == [1, 1]


@pytest.mark.parametrize("asked", [[], ["--output", "json"]])
def test_a_list_without_tools_says_why(cli: Cli, scripted: Scripted, asked: list[str]) -> None:
    """As a search does; servers that are off are named if they are asked for."""
    cli.env = FUZZY
    entries = {
        "gone": {"command": "/nonesuch/program"},
        "odd": {"command": 5},
        "off": {"command": "x", "disabled": True},
    }
    cli.configure(**entries)
    done = cli("list-tools", *asked)
    assert done.returncode == 1
    gone, odd = done.stderr.splitlines()
    assert gone.startswith("toolscript: not listed: gone: its command '/nonesuch/program' was not")
    assert odd.startswith("toolscript: not listed: odd: ")
    alone = cli("list-tools", "off", *asked)
    line = "toolscript: not listed: off: disabled; turn it on with: toolscript enable off\n"
    assert (alone.returncode, alone.stderr) == (1, line)
    cli.configure(**entries, files=scripted(READ_FILE))
    done = cli("list-tools", *asked)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 2)
    assert cli("list-tools", "files", *asked).stderr == ""


@pytest.mark.parametrize("runs", [True, False], ids=["gateway", "alone"])
def test_held_tools_are_missed_with_a_word(cli: Cli, tmp_path: Path, *, runs: bool) -> None:
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps([tool("up", "Goes up")]), "utf-8")
    cli.env = FUZZY
    cli.configure(mut=Scripted(cli.home)(tools_file=str(listed)))
    assert cli("list-tools").stderr == ""
    listed.write_text(json.dumps([tool("up", "Goes up, and tells")]), "utf-8")
    held = "1 tool held: toolscript review mut"
    if runs:
        cli.start_gateway()
        assert cli("restart", "mut").stdout == f"mut is ready with 0 tools, {held}\n"
        assert cli("enable", "mut").stdout == f"mut: ready; 0 tools; {held}\n"
    done = cli("list-tools", *[] if runs else ["--refresh"])
    assert (done.returncode, done.stderr) == (0, f"toolscript: {held}\n")
    assert "mut__up" not in done.stdout
