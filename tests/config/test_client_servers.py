"""Another client's entry becomes one of ours: no key is lost without a word."""

from pathlib import Path
from typing import Any

import pytest

from toolscript.config.client_servers import KEPT_KEYS, PERMISSION_KEYS, convert, read_servers
from toolscript.config.clients import CLIENTS
from toolscript.config.entry import KEYS, Source, server
from toolscript.config.entry_aliases import (
    ALIASES,
    MERGED_KEYS,
    REQUEST_KEYS,
    SWITCH_KEYS,
    UNREAD_KEYS,
    spellings,
)
from toolscript.config.setup_plan import merge

BY_NAME = {client.name: client for client in CLIENTS}
FOLDER = Path("/home/ana")
EVERY_KEY = sorted(
    {*KEYS, *ALIASES, *MERGED_KEYS, *SWITCH_KEYS, *UNREAD_KEYS, *PERMISSION_KEYS, "unheardOf"}
)
_LISTS = ("excludeTools", "includeTools")
_TIMES = ("startTimeout", "callTimeout")
VALUES: dict[str, Any] = {
    "command": "x",
    "cmd": "x",
    "args": ["y"],
    **{key: {"K": "v"} for key in ("env", "environment", "envs", "headers", "http_headers")},
    "env_http_headers": {"K": "V"},
    "env_vars": ["V"],
    **{key: ["t"] for key in ("alwaysAllow", "autoApprove")},
    **{each: ["t"] for key in _LISTS for each in spellings(key)},
    **{each: 2000 for key in _TIMES for each in spellings(key)},
    "timeout": 2000,
    **SWITCH_KEYS,
    "tool_configuration": {"allowed_tools": ["t"]},
    **{key: {"headers": {"K": "v"}} for key in REQUEST_KEYS},
    "trust": True,
    "default_tools_approval_mode": "approve",
    "permissions": {"t": "ask"},
    "oauth": {"clientId": "i"},
}


@pytest.mark.requirement("setup:move")
@pytest.mark.parametrize("key", EVERY_KEY)
@pytest.mark.parametrize("client", ["cursor", "gemini"])
def test_every_key_is_kept_mapped_or_named(client: str, key: str) -> None:
    raw = {"command": "x", key: VALUES.get(key, "v")}
    entry, notes = convert(raw, BY_NAME[client], FOLDER)
    without, _ = convert({"command": "x"}, BY_NAME[client], FOLDER)
    is_named = any(key in note for note in notes)
    is_switch = key in SWITCH_KEYS
    assert entry != without or is_named or is_switch or key in {"command", "cmd"}
    assert entry.keys() <= KEPT_KEYS


def convert_all(client: str, raw: dict[str, Any], **more: Any) -> dict[str, Any]:
    return convert({"command": "x", **raw}, BY_NAME[client], FOLDER, **more)[0]


@pytest.mark.parametrize(
    ("client", "raw", "entry"),
    [
        ("cline", {"alwaysAllow": ["a", "b*"]}, {"permissions": {"a": "allow", "b[*]": "allow"}}),
        ("cline", {"autoApprove": ["*"]}, {"permissions": {"*": "allow"}}),
        ("cline", {"alwaysAllow": [], "autoApprove": True}, {}),
        (
            "gemini",
            {"trust": True, "timeout": 500},
            {"permissions": {"*": "allow"}, "callTimeout": 0.5},
        ),
        ("gemini", {"trust": False, "timeout": 10**9}, {"callTimeout": 86_400}),
        (
            "gemini",
            {"env": {"A": "$B", "C": "$$D", "E": "${F}"}},
            {"env": {"A": "${B}", "C": "$$D", "E": "${F}"}},
        ),
        ("roo", {"timeout": 30, "callTimeout": 10}, {"callTimeout": 10}),
        ("opencode", {"timeout": 8000}, {"callTimeout": 8.0}),
        ("copilot", {"timeout": 8000}, {"callTimeout": 8.0}),
        ("roo-project", {"timeout": 30}, {"callTimeout": 30}),
        (
            "codex",
            {
                "default_tools_approval_mode": "prompt",
                "tools": {"read": {"approval_mode": "approve"}, "odd": {"approval_mode": "auto"}},
            },
            {"permissions": {"*": "ask", "[r]ead": "allow"}},
        ),
        ("codex", {"bearer_token_env_var": "T"}, {"headers": {"Authorization": "Bearer ${T}"}}),
        ("cursor", {"envFile": "a.env"}, {"envFile": "/home/ana/a.env"}),
        ("cursor", {"envFile": "${workspaceFolder}/.env"}, {"envFile": "${workspaceFolder}/.env"}),
        ("cursor", {"enabled": True, "disabled": False}, {}),
    ],
)
def test_an_entry_is_converted(client: str, raw: dict[str, Any], entry: dict[str, Any]) -> None:
    assert convert_all(client, raw) == {"command": "x", **entry}


@pytest.mark.requirement("setup:safe")
@pytest.mark.parametrize(
    "raw", [{"alwaysAllow": ["a"]}, {"trust": True}, {"permissions": {"a": "allow"}}]
)
def test_a_project_allows_nothing(raw: dict[str, Any]) -> None:
    assert convert_all("roo-project", raw, project=FOLDER) == {"command": "x"}


def test_rules_that_are_taken_over_are_not_called_unread() -> None:
    raw = {"command": "x", "tools": {"a": {"approval_mode": "approve"}, "b": {"x": 1}}}
    _, notes = convert(raw, BY_NAME["codex"], FOLDER)
    assert [note.partition(" ")[0] for note in notes] == ["tools.b"]


def test_a_converted_entry_does_what_the_first_did() -> None:
    raw: dict[str, Any] = {
        "type": "local",
        "command": ["x", "y"],
        "environment": {"K": 1},
        "includeTools": ["a", "b"],
        "tools": ["a"],
        "disabled_tools": ["c"],
    }
    entry, _ = convert(raw, BY_NAME["opencode"], FOLDER)
    assert server("s", entry, Source({})) == server("s", raw, Source({}))


def test_a_switch_beside_the_servers_counts(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "x"}, "_": "note"}, "disabledMcpServers": ["a"]}'
    [one] = read_servers(tmp_path / "c.json", text.encode(), {}, tmp_path, BY_NAME["claude-code"])
    assert (one.name, one.is_off, one.entry) == ("a", True, {"command": "x", "disabled": True})


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("claude-code", [".claude.json"] * 3),
        (
            "claude-desktop",
            [
                ".config/Claude/claude_desktop_config.json",
                "Library/Application Support/Claude/claude_desktop_config.json",
                "AppData/Roaming/Claude/claude_desktop_config.json",
            ],
        ),
        (
            "vscode-insiders",
            [
                ".config/Code - Insiders/User/mcp.json",
                "Library/Application Support/Code - Insiders/User/mcp.json",
                "AppData/Roaming/Code - Insiders/User/mcp.json",
            ],
        ),
        ("zed", [".config/zed/settings.json"] * 2 + ["AppData/Roaming/Zed/settings.json"]),
    ],
)
def test_each_system_has_its_paths(name: str, paths: list[str]) -> None:
    platforms = ("linux", "darwin", "win32")
    found = [BY_NAME[name].path(FOLDER, Path("/p"), platform) for platform in platforms]
    assert found == [FOLDER / path for path in paths]


def test_opencode_has_two_places() -> None:
    client = BY_NAME["opencode"]
    keys, entry = client.entry({"mcp": {"servers": {}}}, ["t", "mcp"])
    assert (keys, entry) == (
        ("mcp", "servers", "toolscript"),
        {"type": "local", "command": ["t", "mcp"]},
    )


@pytest.mark.parametrize(
    "section", [r'{"a": {"command": "x", "env": {"K": "\ud800"}}}', r'{"\ud800": {"command": "x"}}']
)
def test_a_server_with_half_a_character_stays(section: str) -> None:
    [cursor] = [client for client in CLIENTS if client.name == "cursor"]
    data = f'{{"mcpServers": {section}}}'.encode()
    [server] = read_servers(Path("/h/mcp.json"), data, {}, Path("/h"), cursor)
    assert server.spec is None
    assert server.notes == (r"it has half a character, '\ud800'; write the whole one",)
    [planned] = merge([], [server])
    assert planned.state == "stays"
