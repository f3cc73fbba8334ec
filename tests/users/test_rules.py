"""The rules that clients state about the tools of a server move with the server."""

import json
from typing import Any

import pytest

from tests.support import Cli
from tests.users.homes import RULED, contents, furnish

TAKEN: dict[str, Any] = {
    "git": {"git_push": "deny", "git_write": "ask", "git_read": "allow"},
    "sqlite": {"sqlite_write": "deny", "sqlite_drop": "deny"},
    "mail": {"mail_write": "deny", "*": "allow"},
    "memory": {"memory_write": "deny", "memory_drop": "deny", "*": "allow"},
}
"""The rules in the entry of each server. Nobody allows Bash, or reads the project's ``allow``."""
HOOK = "~/.claude/settings.json has 'mcp__sqlite__.*' in hooks.PreToolUse"


def lost(cli: Cli) -> list[tuple[bool, bool, str, str]]:
    findings = json.loads(cli("doctor", "--output", "json", cwd=cli.home / "shop").stdout)
    return [
        (each["ok"], each["degraded"], each["found"].replace(str(cli.home), "~"), each["advice"])
        for each in findings["findings"]
        if each["what"] == "client rules"
    ]


@pytest.mark.requirement("setup:safe")
def test_a_servers_rules_move_with_it(cli: Cli) -> None:
    before = furnish(cli.home, files=RULED)
    shop = cli.home / "shop"
    looked = cli("setup", "--dry-run", cwd=shop)
    assert '+        "sqlite_write": "deny",\n' in looked.stdout
    shown = looked.stdout.replace(str(cli.home), "~")
    assert f"{HOOK}, a hook that its calls start no more; give the server the rule" in shown
    assert "'mcp__git__git_write' in permissions.allow, which is not taken over" in looked.stdout
    assert contents(cli.home) == before
    done = cli("setup", "--yes", cwd=shop)
    assert done.returncode == 0, done.stderr
    path = cli.home / ".toolscript.json"
    own = json.loads(path.read_bytes())["mcpServers"]
    assert {name: entry["permissions"] for name, entry in own.items()} == TAKEN
    for tool in ("sqlite__sqlite_write", "mail__mail_write", "memory__memory_write"):
        refused = cli("call", tool, "{}")
        assert (refused.returncode, "may not be called" in refused.stderr) == (1, True), (
            refused.stderr
        )
    for tool in ("sqlite__sqlite_read", "mail__mail_read", "memory__memory_read"):
        assert cli("call", tool, "{}").returncode == 0
    advice = f'write "permissions": {{"sqlite__*": "ask"}} into {path}'
    assert lost(cli) == [(True, True, f"{HOOK}, which does not count for sqlite here", advice)]
    assert cli("setup", "--undo", "--yes").returncode == 0
    assert contents(cli.home) == before


@pytest.mark.requirement("setup:safe")
def test_a_rule_that_comes_later_is_named(cli: Cli) -> None:
    furnish(cli.home, files=RULED)
    assert cli("setup", "--yes", "--client", "claude-code").returncode == 0
    rules = {"permissions": {"deny": ["mcp__git", "mcp__sqlite__sqlite_write", "mcp__time"]}}
    (cli.home / ".claude/settings.json").write_text(json.dumps(rules), "utf-8")
    own = cli.home / ".toolscript.json"
    stated = "~/.claude/settings.json has 'mcp__git' in permissions.deny"
    advice = f'write "permissions": {{"git__*": "deny"}} into {own}'
    assert lost(cli) == [(False, False, f"{stated}, which does not count for git here", advice)]
    document = json.loads(own.read_bytes()) | {"permissions": {"git__*": "deny"}}
    del document["mcpServers"]["git"]["permissions"]
    own.write_text(json.dumps(document), "utf-8")
    assert lost(cli) == []


@pytest.mark.requirement("setup:safe")
def test_a_known_server_gets_the_rules_that_it_lacks(cli: Cli) -> None:
    furnish(cli.home, files=RULED)
    own = cli.home / ".toolscript.json"
    server = {"command": str(cli.home / "bin/server"), "args": ["sqlite"]}
    entry = {**server, "permissions": {"sqlite_drop": "allow", "sqlite_read": "deny"}}
    own.write_text(json.dumps({"mcpServers": {"data": entry}}), "utf-8")
    done = cli("setup", "--yes", "--client", "cursor", "--client", "claude-code")
    assert done.returncode == 0, done.stderr
    entries = json.loads(own.read_bytes())["mcpServers"]
    rules = {"sqlite_drop": "deny", "sqlite_read": "deny", "sqlite_write": "deny"}
    assert entries["data"] == {**server, "permissions": rules}
    assert [*entries] == ["data", "git"]


@pytest.mark.requirement("setup:safe")
def test_a_client_whose_rules_cannot_be_read_keeps_its_servers(cli: Cli) -> None:
    before = furnish(cli.home, files=RULED)
    path = cli.home / ".claude/settings.json"
    path.write_text('{"permissions": {', "utf-8")
    done = cli("setup", "--yes", "--client", "claude-code")
    assert done.returncode == 1
    assert done.stderr.startswith(f"toolscript: {path} is not valid JSON: ")
    assert contents(cli.home) == before | {path: path.read_bytes()}


@pytest.mark.requirement("setup:move")
def test_a_client_learns_which_tools_only_look(cli: Cli) -> None:
    furnish(cli.home, files=RULED)
    (cli.home / ".codex").mkdir()
    (cli.home / ".codex/config.toml").write_text('model = "gpt-5"\n', "utf-8")
    shown = cli("setup", "--yes").stdout
    assert (
        "Claude Code asks about each tool; permissions.allow in ~/.claude/settings.json may have: "
        '"mcp__toolscript__search_tools", "mcp__toolscript__describe_tools", '
        '"mcp__toolscript__read_result", "mcp__toolscript__read_tool"\n'
    ) in shown
    assert "Codex asks" not in shown
    assert "Gemini CLI asks" not in shown
    gemini = json.loads((cli.home / ".gemini/settings.json").read_bytes())["tools"]
    assert gemini["exclude"] == ["mail_write", "run_shell_command"]
    names = ["search_tools", "describe_tools", "read_result"]  # read_tool calls servers
    assert gemini["allowed"] == ["mcp_mail_x", *(f"mcp_toolscript_{name}" for name in names)]
    codex = (cli.home / ".codex/config.toml").read_text("utf-8")
    table = "[mcp_servers.toolscript.tools.search_tools]"
    assert f'\n{table}\napproval_mode = "approve"\n' in codex
    assert "call_tool" not in codex


def test_setup_says_whose_files_it_looked_for(cli: Cli) -> None:
    shown = cli("setup", "--yes").stdout
    assert shown.startswith("no servers in the files of Claude Code, Claude Desktop, Cursor, ")
    assert "Gemini CLI, Qwen Code, Copilot CLI, opencode, Zed, Cline, Cline CLI, Roo Code" in shown
