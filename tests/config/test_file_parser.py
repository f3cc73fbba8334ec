"""Files as editors and other programs write them: comments, commas, byte order marks, TOML."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.config.file_parser import entries_of, keys_of, parsed
from toolscript.errors import ConfigSyntaxError

COMMENTED = """{
  // of our editor
  "servers": {
    "on": {"command": "x", "args": ["// no comment", "/* nor this */", ",]", "\\"},"],},
    /* "off": {"command": "y"} */
  }, // the last one
}"""
ON = {"servers": {"on": {"command": "x", "args": ["// no comment", "/* nor this */", ",]", '"},']}}}


@pytest.mark.parametrize(
    "data",
    [
        COMMENTED.encode(),
        COMMENTED.replace("\n", "\r\n").encode("utf-8-sig"),
        COMMENTED.encode("utf-16"),
        json.dumps(ON).encode("utf-16-be").join([b"\xfe\xff", b""]),
    ],
)
def test_what_editors_write_is_read(data: bytes) -> None:
    assert parsed(Path("c.json"), data) == ON


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, // b\n "a": 2,}', "has the key 'a' twice"),
        ('{\n // a comment\n "a": oops,\n}', "is not valid JSON: line 3, column 7: "),
        ('{"a": [1,,]}', "is not valid JSON: line 1, column 10: "),
        ('{"a": 1 /* open }', "is not valid JSON: line 1, column "),
        ("{,}", "is not valid JSON: line 1, column 2: "),
        ("// nothing else", "is not valid JSON: line 1, column "),
        ("{'a': 1}", "is not valid JSON: line 1, column 2: "),
        ('/**/{"a": ' + "[" * 100_000, "is nested too deeply"),
    ],
)
def test_what_no_editor_writes_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigSyntaxError) as caught:
        parsed(Path("c.json"), text.encode())
    assert str(caught.value).startswith(f"c.json {message}")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='/*,]}"\\ \n{[x'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='/*,]}"\\ x'), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(alphabet="/*,]}ab"), VALUES))
def test_nothing_within_a_string_is_taken_for_a_comment(value: dict[str, object]) -> None:
    """With a comment and a comma at each place where they may be."""
    text = json.dumps(value, indent=1).replace("\n", ' // ", ]\n/* , } */')
    commented = f"{text[:-1]},{text[-1:]}" if value else text
    assert parsed(Path("c.json"), commented.encode()) == value


@pytest.mark.parametrize(
    "piece", ["/*", "//", '"', '"\\"', ",", ", ", "/* ", "/*/", "*/", '\\"', ",/*"]
)
def test_no_file_takes_long_to_be_refused(piece: str) -> None:
    """A megabyte: with the square of its length as steps the test would not end in time."""
    text = "{" + piece * (1_000_000 // len(piece))
    with pytest.raises(ConfigSyntaxError):
        parsed(Path("c.json"), text.encode())


def test_a_toml_file_is_read_by_its_name() -> None:
    text = b'[mcp_servers.docs]\ncommand = "x"\nargs = ["y"]\n'
    expected = {"mcp_servers": {"docs": {"command": "x", "args": ["y"]}}}
    assert parsed(Path("config.toml"), text) == expected
    with pytest.raises(ConfigSyntaxError, match="is not valid TOML: "):
        parsed(Path("config.toml"), b"[a")
    with pytest.raises(ConfigSyntaxError, match="is nested too deeply"):
        parsed(Path("config.toml"), b"a = " + b"[" * 80 + b"]" * 80)


def test_dates_of_toml_are_texts() -> None:
    text = b"[mcp_servers.s.env]\nD = 2026-01-01\nT = 2026-01-01T10:00:00Z\n"
    assert parsed(Path("config.toml"), text)["mcp_servers"]["s"]["env"] == {
        "D": "2026-01-01",
        "T": "2026-01-01T10:00:00Z",
    }


# The sections of several clients, and the lists of servers that are off

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
