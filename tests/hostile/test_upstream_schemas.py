"""Hostile input schemas: a call is checked within bounded work; past it, its server decides."""

import json
from typing import Any

import pytest

from tests.hostile.schemas import HOSTILE
from tests.support import FUZZY, Cli, Scripted, fetch, post, tool
from toolscript.app.argument_checks import check_arguments
from toolscript.app.json_schema import MAX_WORK, validate
from toolscript.errors import ArgumentsError

_HANGS = ("all_of", "if_then", "unevaluated_of_references", "enum_for_each_item")
"""Kinds that held the event loop for good."""


@pytest.mark.parametrize("kind", HOSTILE)
def test_h2_no_schema_takes_more_than_its_budget(kind: str) -> None:
    messages = [mistake.message for mistake in validate(*HOSTILE[kind], limit=6)]
    assert len(messages) <= 6
    assert max(map(len, messages), default=0) < 2_000_000


def test_h2_a_hostile_schema_keeps_nobody_else_waiting(scripted: Scripted, cli: Cli) -> None:
    """The calls reach their server, which judges them; meanwhile and afterwards all else works."""
    tools = [tool(kind, inputSchema={"type": "object", **HOSTILE[kind][0]}) for kind in _HANGS]
    cli.configure(s=scripted(*tools))
    url = cli.start_gateway(env=FUZZY)
    for kind in _HANGS:
        status, result = post(url, f"/tools/s__{kind}", HOSTILE[kind][1])
        assert (status, json.loads(result["content"][0]["text"])["name"]) == (200, kind)
        assert fetch(url, "/health")[0] == 200
    assert cli("gateway", "stop").returncode == 0


def test_h2_a_schema_that_is_only_large_is_of_use() -> None:
    names = [f"p{n}" for n in range(300)]
    schema = {"properties": {name: {"type": "string"} for name in names}, "required": names}
    with pytest.raises(ArgumentsError, match=r"t: p0 is missing; .* and more\. It takes p0"):
        check_arguments("t", schema, {})


def test_h2_a_schema_that_refers_to_itself_is_of_use_unless_it_doubles() -> None:
    integer, below = {"n": {"type": "integer"}}, {"$ref": "#/$defs/a"}
    tree = {"$defs": {"a": {"properties": {**integer, "below": below}}}, **below}
    with pytest.raises(ArgumentsError, match=r"below\.below\.n is \"x\"; expected integer"):
        check_arguments("t", tree, {"below": {"below": {"n": "x"}}})
    doubling = {"properties": {**integer, "below": {"allOf": [below, below]}}}
    given = json.loads('{"below":' * 14 + '{"n": "x"}' + "}" * 14)
    assert validate({"$defs": {"a": doubling}, **below}, given, 6) == []


@pytest.mark.parametrize(
    ("pattern", "text", "known"),
    [
        ("^[a-z]+$", "A", 1),
        ("^(a+)+$", "a" * 40 + "!", 1),
        ("^(?!a)", "a", 1),
        ("(a*)*\\1b", "a" * 40 + "!", 0),
        ("[", "a", 0),
    ],
)
def test_h2_a_regular_expression_is_checked_in_bounded_steps(
    pattern: str, text: str, known: int
) -> None:
    mistakes = validate({"properties": {"x": {"pattern": pattern}}}, {"x": text}, 6)
    assert [mistake.instance_path for mistake in mistakes] == [["x"]] * known


def test_h2_arguments_times_schema_are_bounded() -> None:
    schema = {"properties": {"x": {"items": {"enum": list(range(2000))}}}}
    assert validate(schema, {"x": [-1]}, 6)
    assert validate(schema, {"x": [-1] * (MAX_WORK // 2000)}, 6) == []


def test_h2_our_own_schemas_check_arguments_of_any_size() -> None:
    """The tools behind them count on what the schema says."""
    schema = {"properties": {"q": {"type": "string"}}, "required": ["q"]}
    deep: Any = json.loads("[" * 900 + "]" * 900)
    for given in ({"x": [1] * 30_000}, {"x": deep}, {f"k{n}": n for n in range(30_000)}):
        with pytest.raises(ArgumentsError, match="q is missing"):
            check_arguments("ours", schema, given, ours=True)
    with pytest.raises(ArgumentsError, match=r"q is \[1, 1, 1"):
        check_arguments("ours", schema, {"q": [1] * 30_000}, ours=True)


def test_h2_a_message_quotes_a_beginning() -> None:
    schema = {"properties": {"x": {"maxLength": 3}, "y": {"enum": ["a", "b"]}}}
    with pytest.raises(
        ArgumentsError, match=r'x is "aaa[^"]*…; it is longer than 3 .*; y is "c"; it is not one'
    ):
        check_arguments("t", schema, {"x": "a" * 100_000, "y": "c"})


def test_h2_a_type_that_nobody_knows_is_left_to_the_server() -> None:
    schema = {"properties": {"a": {"$ref": "#/default"}}, "default": {"type": "file"}}
    assert check_arguments("t", schema, {"a": 1}) == {"a": 1}
