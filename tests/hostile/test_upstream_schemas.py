"""Hostile input schemas: a call is checked within a budget, past which its server decides."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.hostile.schemas import HOSTILE
from tests.support import FUZZY, Cli, Scripted, fetch, post, running, tool, write_config
from toolscript.app import argument_checks as arguments
from toolscript.app import schema_validation as validation
from toolscript.app.argument_checks import check_arguments, check_foreign_arguments
from toolscript.errors import ArgumentsError

_HANGS = ("all_of", "pattern_properties", "additional_beside_patterns", "unevaluated_properties")
"""What held the event loop for good; ``{}`` was enough for the first."""


@pytest.mark.parametrize("kind", HOSTILE)
def test_h2_no_schema_takes_more_than_its_budget(kind: str) -> None:
    schema, given = HOSTILE[kind]
    budget = validation.Budget(arguments.MAX_STEPS)
    try:
        errors = validation.errors(schema, given, budget, 6)
    except validation.OverBudgetError:
        return
    assert len(errors) <= 6
    assert all(len(error.message) < 2_000_000 for error in errors)


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


def test_h2_what_is_past_the_budget_is_left_to_the_server(
    scripted: Scripted, tmp_path: Path
) -> None:
    schema, given = HOSTILE["one_of"]
    config = write_config(tmp_path / "config.json", {"s": scripted(tool("t", inputSchema=schema))})
    with running(config) as app:
        result = app.portal.call(app.app.call, "s__t", given)
    assert json.loads(result["content"][0]["text"])["name"] == "t"


def _check(schema: dict[str, Any], given: dict[str, Any]) -> None:
    anyio.run(check_foreign_arguments, "t", schema, given)


def test_h2_more_steps_than_the_loop_takes_are_taken_in_a_thread() -> None:
    """A schema that is only large is of use as before."""
    names = [f"p{n}" for n in range(300)]
    schema = {"properties": {name: {"type": "string"} for name in names}, "required": names}
    with pytest.raises(validation.OverBudgetError):
        validation.errors(schema, {}, validation.Budget(arguments.QUICK_STEPS, final=False), 6)
    with pytest.raises(ArgumentsError, match=r"t: p0 is missing; .* and more\. It takes p0"):
        _check(schema, {})


def test_h2_what_a_regular_expression_decides_is_left_to_the_server() -> None:
    """Names that fit no pattern are not refused; where there are no patterns, others are."""
    beside = {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}
    _check(beside, {"y": 1})
    with pytest.raises(ArgumentsError, match="'y' was unexpected"):
        _check({"additionalProperties": False}, {"y": 1})


def test_h2_our_own_schemas_check_arguments_of_any_size() -> None:
    """The tools behind them count on what the schema says."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    deep: Any = json.loads("[" * 900 + "]" * 900)
    for given in ({"x": [1] * 30_000}, {"x": deep}, {f"k{n}": n for n in range(30_000)}):
        with pytest.raises(ArgumentsError, match="q is missing"):
            check_arguments("ours", schema, given)
    with pytest.raises(ArgumentsError, match=r"q is \[1, 1, 1"):
        check_arguments("ours", schema, {"q": [1] * 30_000})


def test_h2_a_message_quotes_a_beginning() -> None:
    schema = {"properties": {"x": {"maxLength": 3}, "y": {"enum": ["a", "b"]}}}
    with pytest.raises(ArgumentsError, match=r"x: 'aaa[^']*…' is too long; y: 'c' is not one of"):
        check_arguments("t", schema, {"x": "a" * 100_000, "y": "c"})


@pytest.mark.parametrize(
    "schema",
    [
        {
            "$schema": "http://json-schema.org/draft-03/schema#",
            "type": "object",
            "properties": {"a": {"type": "date"}},
        },
        {"properties": {"a": {"$ref": "#/default"}}, "default": {"type": "file"}},
    ],
)
def test_h2_a_type_that_nobody_knows_is_left_to_the_server(schema: dict[str, Any]) -> None:
    _check(schema, {"a": 1})
