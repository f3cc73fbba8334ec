"""``toolscript list-servers --resources``: upstream:resources."""

import json

import pytest
from tests.support import FUZZY, READ_FILE, SEND_MAIL, Cli, Scripted, fetch, post

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
