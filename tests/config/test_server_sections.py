"""The sections of several clients in one file, and the lists of servers that are off."""

from pathlib import Path
from typing import Any

import pytest

from toolscript.config.server_sections import entries_of, keys_of
from toolscript.errors import ConfigSyntaxError

A, B = {"command": "a"}, {"command": "b"}
OFF = {"disabled": True}
PATH = Path("c.json")


@pytest.mark.parametrize(
    ("document", "entries"),
    [
        ({"mcpServers": {"a": A}, "servers": {"b": B}}, {"a": A, "b": B}),
        ({"mcpServers": {}, "servers": {"b": B}}, {"b": B}),
        ({"mcpServers": {"a": A}, "servers": {"a": A}}, {"a": A}),
        ({"mcpServers": [{"name": "a", **A}]}, {"a": {"name": "a", **A}}),
        ({"servers": []}, {}),
        ({"context_servers": {"a": A}}, {"a": A}),
        ({"mcp_servers": {"a": A}}, {"a": A}),
        ({"mcp": {"a": A}}, {"a": A}),
        ({"mcp": {"servers": {"a": A}, "inputs": []}}, {"a": A}),
        ({"mcp.servers": {"a": A}, "mcp.inputs": []}, {"a": A}),
        ({"mcp": {"serverCommand": "x"}, "mcpServers": {"a": A}}, {"a": A}),
        ({"skills": []}, {}),
        ({"mcpServers": {"a": A, "b": B}, "disabledMcpServers": ["a"]}, {"a": OFF, "b": B}),
        ({"mcpServers": {"a": A}, "disabledMcpjsonServers": ["a", "x"]}, {"a": OFF}),
        ({"mcpServers": {"a": A, "b": B}, "mcp": {"excluded": ["b"]}}, {"a": A, "b": OFF}),
        ({"mcpServers": {"a": A, "b": B}, "mcp": {"allowed": ["b"]}}, {"a": OFF, "b": B}),
        ({"mcpServers": {"a": A}, "mcp": {"allowed": ["a"], "excluded": ["a"]}}, {"a": OFF}),
    ],
)
def test_all_sections_are_read(document: dict[str, Any], entries: dict[str, Any]) -> None:
    assert entries_of(PATH, document) == entries


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"mcpServers": {"a": A}, "servers": {"a": B}},
            "c.json has the server 'a' in mcpServers and in servers; keep the one that is meant",
        ),
        ({"mcpServers": 1}, "c.json has mcpServers, which is neither object nor list; expected"),
        ({"servers": None, "mcpServers": {"a": A}}, "c.json has servers, which is neither"),
        ({"mcpServers": [A]}, "c.json has mcpServers, which is a list with an entry without a"),
        ({"mcpServers": [{"name": 1}]}, "c.json has mcpServers, which is a list with an entry"),
        ({"mcpServers": {"a": A}, "disabledMcpServers": "a"}, "c.json: disabledMcpServers is no "),
        ({"mcpServers": {"a": A}, "mcp": {"excluded": [1]}}, "c.json: mcp.excluded is no list "),
        ({"mcpServers": {"a": A}, "mcp": {"allowed": "a"}}, "c.json: mcp.allowed is no list of"),
    ],
)
def test_what_cannot_be_read_whole_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        entries_of(PATH, document)
    assert str(caught.value).startswith(message)


def test_the_keys_on_the_way_to_an_entry() -> None:
    """A dot is part of a key, or between two."""
    assert keys_of({"mcp.servers": {"a": A}}) == {"a": ("mcp.servers", "a")}
    assert keys_of({"mcp": {"servers": {"a": A}}}) == {"a": ("mcp", "servers", "a")}
