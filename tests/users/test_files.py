"""Each file is read as its owner means it: a row of the table for each."""

import os
from pathlib import Path
from typing import Any

import pytest

from toolscript.config.servers import load_config
from toolscript.types import PROJECT

FILES = Path(__file__).parent / "files"
ENVIRON = {"HOME": "/home/ana", "LEVEL": "3", "TOKEN": "t0ken"}
WEB = {"url": "http://127.0.0.1:9/mcp", "transport": "http"}
OFF = {"disabled": True}
NOTES = {"command": "notes", "disabled": False}
INPUT = "env.KEY has ${input:key}, which is no variable here"
READ: dict[str, dict[str, Any]] = {
    "switched_off.json": {
        "codex": OFF,
        "cherry": OFF,
        "jan": OFF,
        "contradicting": OFF,
        "on": NOTES,
    },
    "switched_off_beside.json": {"mail": OFF, "web": OFF, "notes": NOTES},
    "tools_taken_away.json": {
        "kiro": {"exclude_tools": ("delete_order",), "include_tools": None},
        "codex": {"include_tools": ("list_orders",)},
        "copilot": {"include_tools": ("list_orders", "find_order")},
        "everything": {"include_tools": ("*",)},
    },
    "editor.json": {"notes": {**NOTES, "args": ("--root", PROJECT)}},
    "two_sections.json": {"notes": NOTES, "mail": {"command": "mail"}},
    "list_of_servers.json": {"notes": NOTES, "web": WEB},
    "opencode.json": {
        "notes": {**NOTES, "args": ("--port", "8080"), "env": {"LEVEL": "3"}},
        "web": OFF,
    },
    "zed.json": {"notes": NOTES},
    "codex.toml": {
        "notes": {**NOTES, "args": ("serve",), "env": {"LEVEL": "3"}, "cwd": "/srv"},
        "web": {**WEB, "headers": {"Authorization": "Bearer t0ken", "X-Team": "shop"}},
    },
    "asked_for.json": {
        "asked": INPUT,
        "configured": "args has ${config:notes.root}, which is no variable here",
        "unset": "env.KEY needs ${NOT_SET_ANYWHERE}, which is not set in the environment",
        "default": {"env": {"KEY": "3"}},
        "kept": {"args": ("-c", "echo ${LEVEL} ${LEVEL%%.*}")},
    },
    "own_variables.json": {
        "far": {"args": ("http://127.0.0.1:9", "--header", "Authorization:Bearer t0ken")}
    },
    "unread_keys.json": {"far": WEB, "near": NOTES},
    "loose.json": {
        "numbers": {"args": ("--port", "8080", "true")},
        "nulls": NOTES,
        "home": {"command": os.path.expanduser("~/bin/notes")},  # noqa: PTH111 - as users write it
    },
    "with_mark.json": {"notes": NOTES},
}
"""The fields of each server, or the beginning of what is wrong with its entry."""
UNREAD = {
    "unread_keys.json": [("far", "headersHelper is not read: "), ("near", "timeout is not read: ")]
}


def test_every_file_has_its_row() -> None:
    assert {path.name for path in FILES.iterdir()} == READ.keys()


@pytest.mark.parametrize("name", READ)
def test_it_is_read_as_its_owner_means_it(name: str) -> None:
    config = load_config(FILES / name, FILES, ENVIRON)
    servers = {spec.name: spec for spec in config.servers}
    problems = {problem.server: problem.message for problem in config.problems}
    assert servers.keys() | problems.keys() == READ[name].keys()
    for server, expected in READ[name].items():
        if isinstance(expected, str):
            assert problems[server].startswith(expected)
        else:
            fields = {field: getattr(servers[server], field) for field in expected}
            assert fields == expected, server
    lines = [(server, line) for server, each in config.unread.items() for line in each]
    expected_lines = UNREAD.get(name, [])
    assert len(lines) == len(expected_lines)
    for (server, message), (of, beginning) in zip(lines, expected_lines, strict=True):
        assert server == of
        assert message.startswith(beginning)
    assert not config.key_problems
