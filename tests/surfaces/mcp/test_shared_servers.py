"""Sessions of the clients of others at once, over one gateway and one set of real servers."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.clients.driver import EVERY
from tests.support import FUZZY, Cli, alive, child_processes, until

pytestmark = pytest.mark.servers


def running(cli: Cli) -> list[str]:
    """The command lines of the servers that the gateway runs."""
    children = child_processes(int(cli.record()["pid"]))
    return [words for words in children.values() if "/reap.py" not in words]


@pytest.mark.requirement("bridge:shared", "upstream:lazy", "upstream:idle")
def test_clients_share_the_servers_that_they_use(
    cli: Cli, real_servers: dict[str, Any], tmp_path: Path
) -> None:
    """One process of each server that is used, none of the others."""
    cli.env = FUZZY
    cli.configure(**real_servers)
    assert cli("list-servers", "--refresh").returncode == 0, "their tools are known"
    config = tmp_path / "client.json"
    words = cli.command("mcp")
    env = {**FUZZY, "TOOLSCRIPT_PORT": "0", "TOOLSCRIPT_IDLE_TIMEOUT": "8"}
    entry = {"command": words[0], "args": words[1:], "env": env}  # clients pass on no other
    config.write_text(json.dumps({"mcpServers": {"toolscript": entry}}), "utf-8")
    where = {"config": str(config), "server": "toolscript"}
    with ExitStack() as stack:
        clients = [stack.enter_context(start(where, cli.environment())) for start in EVERY.values()]
        for client in clients:
            found = json.loads(
                client.call("search_tools", query="the time", detail=True)["content"][0]["text"]
            )
            assert "time:get_current_time" in [each["id"] for each in found["tools"]]
        assert len(cli.records) == 1
        assert running(cli) == []
        for client in clients:
            given = {"tool": "time:get_current_time", "arguments": {"timezone": "UTC"}}
            answer = client.call("read_tool", **given)
            assert json.loads(answer["content"][0]["text"])["timezone"] == "UTC"
            given = {"tool": "calculator:calculate", "arguments": {"expression": "6 * 7"}}
            assert client.call("call_destructive_tool", **given)["content"][0]["text"] == "42"
        used = running(cli)
        assert len(used) == 2, used
        until(lambda: running(cli) == [], "idle servers are stopped")
        assert alive(int(cli.record()["pid"]))
