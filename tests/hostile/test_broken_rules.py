"""N3: a rule that cannot be read opens nothing; and rules in Claude Code's shape count."""

import json
from typing import Any

import pytest

from tests.stdio_sessions import called, session
from tests.support import FUZZY, WRITES, Cli, Scripted, fetch, tool, until

READS = {"annotations": {"readOnlyHint": True}}
REFUSED = "while rules cannot be read, only tools that read may be called"


def write(cli: Cli, entry: dict[str, Any], permissions: Any) -> None:
    content = {"mcpServers": {"db": entry}, "permissions": permissions}
    (cli.home / ".toolscript.json").write_text(json.dumps(content), "utf-8")


def problem(cli: Cli) -> str:
    record = cli.record()
    bearer = {"Authorization": f"Bearer {record['key']}"}
    return fetch(record["url"], "/health", headers=bearer)[1]["configurationProblem"]


@pytest.mark.requirement("pins:held")
def test_rules_that_cannot_be_read_let_nothing_but_reads_pass(cli: Cli, scripted: Scripted) -> None:
    cli.env = FUZZY
    entry = scripted(tool("look") | READS, tool("insert") | WRITES, tool("drop"))
    write(cli, entry, {"destructive": "allow"})
    url = cli.start_gateway()
    assert cli("call", "db__drop", "{}").returncode == 0
    write(cli, entry, {"db__drop": ["deny"]})
    until(lambda: problem(cli), "the gateway has read the file")

    assert cli("call", "db__look", "{}").returncode == 0
    bearer = {"Authorization": f"Bearer {cli.record()['key']}"}
    bearer["Content-Type"] = "application/json"
    with session(cli) as client:
        for name in ("insert", "drop"):
            assert REFUSED in cli("call", f"db__{name}", "{}").stderr
            status, answer = fetch(
                url, f"/tools/db__{name}", method="POST", headers=bearer, body=b"{}"
            )
            assert (status, REFUSED in answer["error"]) == (403, True)
            result = client.ask("tools/call", **called(f"db:{name}"))
            assert REFUSED in result["content"][0]["text"]
            assert "permissions.db__drop is list" in result["content"][0]["text"]

    write(cli, entry, {"deny": ["mcp__db__drop"], "ask": [], "allow": ["mcp__db"]})
    until(lambda: not problem(cli), "the gateway has read the file")
    assert cli("call", "db__insert", "{}").returncode == 0
    assert "permissions.deny says deny for db__drop" in cli("call", "db__drop", "{}").stderr
