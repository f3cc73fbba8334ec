"""Definitions as model APIs take them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript import ToolSpec
from toolscript.codegen.api_definitions import FORMATS, define_tool, define_tools, valid_name

VALID = re.compile(r"[A-Za-z0-9_-]{1,46}")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = ToolSpec(
    server="files",
    name="read",
    title="Read a file",
    description="Reads a file.",
    input_schema=SCHEMA,
    annotations={"readOnlyHint": True},
)


@given(st.text(min_size=1, max_size=200))
def test_every_name_becomes_valid_and_stays_the_same(name: str) -> None:
    assert VALID.fullmatch(valid_name(name))
    assert valid_name(name) == valid_name(name)


@given(st.lists(st.text(min_size=1, max_size=80), min_size=2, max_size=2, unique=True))
def test_two_names_do_not_become_one(names: list[str]) -> None:
    assert valid_name(names[0]) != valid_name(names[1])


@pytest.mark.parametrize("name", ["git__git_commit", "a-b", "x" * 46])
def test_a_valid_name_stays_as_it_is(name: str) -> None:
    assert valid_name(name) == name


def test_each_api_has_its_own_form() -> None:
    assert define_tool(READ, "anthropic") == {
        "name": "files__read",
        "description": "Reads a file.",
        "input_schema": SCHEMA,
    }
    assert define_tool(READ, "mcp") == {
        "name": "files__read",
        "title": "Read a file",
        "description": "Reads a file.",
        "inputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True},
    }
    function = define_tool(READ, "openai")
    assert function["parameters"] == SCHEMA
    assert (function["type"], function["strict"]) == ("function", False)


def test_tools_of_one_server_are_one_namespace_of_at_most_nine() -> None:
    tools = [ToolSpec(server=server, name=f"t{n}") for n in range(10) for server in ("a", "b")]
    spaces = define_tools(tools, "openai")
    assert [(space["name"], len(space["tools"])) for space in spaces] == [
        ("a", 9),
        ("a_2", 1),
        ("b", 9),
        ("b_2", 1),
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_schema_that_is_missing_becomes_one_without_arguments(form: str) -> None:
    stated = define_tool(ToolSpec(server="s", name="t"), form)  # type: ignore[arg-type] - one of them
    expected: dict[str, Any] = {"type": "object"}
    expected |= {} if form == "mcp" else {"properties": {}}
    assert expected in stated.values()
