"""Servers of several clients are put together, and secrets leave their entries."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolscript.config.client_servers import ClientServer, read_servers
from toolscript.config.clients import CLIENTS
from toolscript.config.setup_plan import add_hook, find_secrets, merge, move_secrets
from toolscript.errors import ConfigSyntaxError

FOLDER = Path("/home/ana")
SETTINGS = FOLDER / "settings.json"
KEY = "ghp_Aa0Bb1Cc2Dd3Ee4Ff5Gg6Hh7Ii8Jj9Kk0Ll1"


def servers(client: str, section: str) -> list[ClientServer]:
    text = f'{{"mcpServers": {section}}}'.encode()
    row = next((each for each in CLIENTS if each.name == client), None)
    return [*read_servers(FOLDER / "c.json", text, {}, FOLDER, row)]


def test_names_are_free_in_any_case_and_stay_apart() -> None:
    own = servers("", '{"Git": {"command": "own"}, "git-cursor": {"command": "too"}}')
    others = servers("cursor", '{"git": {"command": "x"}, "toolscript": {"command": "y"}}')
    planned = [(server.name, server.known is not None) for server in merge(own, others)]
    assert planned == [("git-cursor-2", False), ("toolscript-cursor", False)]


@pytest.mark.parametrize(
    ("one", "other", "rules"),
    [
        ('{"command": "x", "alwaysAllow": ["a"]}', '{"command": "x"}', None),
        (
            '{"command": "x", "trust": true}',
            '{"command": "x", "alwaysAllow": ["*"]}',
            {"*": "allow"},
        ),
    ],
)
def test_rules_count_if_all_clients_have_them(one: str, other: str, rules: Any) -> None:
    found = servers("gemini", f'{{"a": {one}}}') + servers("cline", f'{{"b": {other}}}')
    [planned] = merge([], found)
    assert (planned.name, planned.entry.get("permissions")) == ("a", rules)


def test_a_server_is_off_if_every_client_has_it_off() -> None:
    off, on = '{"a": {"command": "x", "disabled": true}}', '{"a": {"command": "x"}}'
    [planned] = merge([], servers("cline", off) + servers("roo", on))
    assert planned.entry == {"command": "x"}
    [planned] = merge([], servers("cline", off) + servers("roo", off))
    assert planned.entry == {"command": "x", "disabled": True}


def test_secrets_get_names() -> None:
    entry: dict[str, Any] = {
        "env": {"TOKEN": KEY, "LEVEL": "3", "SET": "${ELSEWHERE}", "N": 1},
        "headers": {"Authorization": f"Bearer {KEY}", "Cookie": "session=a1b2; token=c3d4e5"},
    }
    moved, values = move_secrets("my server", entry, {"my_server_TOKEN": "another"})
    assert moved == {
        "env": {**entry["env"], "TOKEN": "${secret:my_server_TOKEN-2}"},
        "headers": {
            "Authorization": "Bearer ${secret:my_server_Authorization}",
            "Cookie": "${secret:my_server_Cookie}",
        },
    }
    assert values == {
        "my_server_TOKEN-2": KEY,
        "my_server_Authorization": KEY,
        "my_server_Cookie": "session=a1b2; token=c3d4e5",
    }
    assert move_secrets("my server", entry, values)[0] == moved | {
        "env": {**entry["env"], "TOKEN": "${secret:my_server_TOKEN}"}
    }


@pytest.mark.parametrize(
    "value",
    ["${X:-standard}", "{env:X}", "Bearer {file:~/key}", "$KEY", "Bearer $MY_KEY", "%KEY%", "$(x)"],
)
def test_a_variable_of_any_client_is_no_secret_to_move(value: str) -> None:
    entry = {"env": {"KEY": value}, "headers": {"Authorization": value}}
    assert move_secrets("s", entry, {}) == (entry, {})


@pytest.mark.parametrize("value", ["pa$$word{1}", "100%sure%fire", "$ecret-word", "a{file}b"])
def test_a_secret_may_look_odd(value: str) -> None:
    assert [*move_secrets("s", {"env": {"KEY": value}}, {})[1].values()] == [value]


def test_secrets_are_found_in_unreadable_entries_too() -> None:
    entry = {"comand": "x", "args": ["calendar", "--api-key", "hunter"], "env": {"K": KEY}}
    found = {*find_secrets(servers("cursor", json.dumps({"a": entry})))}
    assert {KEY, "hunter"} <= found
    assert "calendar" not in found


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ({"type": "remote", "url": "https://mcp.example.com/mcp", "headers": {"X": KEY}}, "remote"),
        ({"command": ["docker", "run", "-i", "-e", "API_KEY", "mcp/brave-search"]}, "mcp/brave"),
        ({"command": ["docker", "run", "--env", "A_TOKEN", "ghcr.io/github/server"]}, "ghcr.io"),
    ],
)
def test_types_and_images_are_no_secrets(entry: dict[str, Any], shown: str) -> None:
    found = {*find_secrets(servers("opencode", json.dumps({"a": entry})))}
    assert not [text for text in found if shown in text]
    assert (KEY in found) == ("headers" in entry)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "x", "env": {"type": "hunter22", "command": "hunter22", "cwd": "hunter22"}},
        {"command": ["docker", "run", "-e", "A_KEY=hunter22", "mcp/x"]},
        {"command": ["docker", "run", "mcp/x", "--api-key", "hunter22"]},
        {"command": ["x", "-e", "A_KEY", "hunter22"]},
    ],
)
def test_a_secret_in_an_odd_place_is_one(entry: dict[str, Any]) -> None:
    assert "hunter22" in {*find_secrets(servers("opencode", json.dumps({"a": entry})))}


def test_variables_are_no_secrets() -> None:
    """What a file's diff shows of them is their names."""
    headers = {"Authorization": "Bearer ${input:token}", "X-Key": "${env:KEY:-standard1}"}
    entry = {"command": "x", "env": {"ROOT": "${workspaceFolder}"}, "headers": headers}
    found = {*find_secrets(servers("vscode", json.dumps({"a": entry})))}
    assert "${env:KEY:-standard1}" in found
    assert not [text for text in found if "workspaceFolder" in text or "token" in text]


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"UserPromptSubmit": {}}}'])
def test_hooks_of_another_form_stay(text: str) -> None:
    with pytest.raises(ConfigSyntaxError, match="is no list"):
        add_hook(SETTINGS, text.encode(), "x")
