"""A structured result that contradicts its tool's schema is told in the log, once."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support import running, write_config
from toolscript.app.output_checks import OutputChecks
from toolscript.gateway.raw_results import RawResult
from toolscript.testing import scripted_server, tool
from toolscript.types import ToolSpec

NUMBER: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "number"}, "list": {"items": {"maxLength": 3}}},
    "required": ["n"],
}


def spec(schema: dict[str, Any] | None = NUMBER, name: str = "count") -> ToolSpec:
    return ToolSpec(server="s", name=name, output_schema=schema)


def structured(content: Any) -> dict[str, Any]:
    return {"content": [], "structuredContent": content}


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelname == "WARNING" for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (structured({"n": "hush-1"}), "properties/n/type"),
        (structured({"hush-1": 1}), "required ('n' is a required property)"),
        (structured({"n": 1, "list": ["hush-1"]}), "properties/list/items/maxLength"),
        (structured(["hush-1"]), "type"),
        ({"content": []}, "there is no structured content"),
    ],
)
def test_a_contradiction_is_told_without_values(
    caplog: pytest.LogCaptureFixture, result: dict[str, Any], what: str
) -> None:
    anyio.run(OutputChecks().check, spec(), result)
    assert told(caplog) == [f"s: a result of count contradicts its output schema: {what}"]


def test_each_tool_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    checks = OutputChecks()
    for name in ("count", "count", "other", "count"):
        anyio.run(checks.check, spec(name=name), structured({}))
    assert [line.split()[4] for line in told(caplog)] == ["count", "other"]


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        (NUMBER, structured({"n": 1, "more": {}})),
        (None, structured({"n": "x"})),
        (NUMBER, {**structured({"n": "x"}), "isError": True}),
        (NUMBER, {"resultType": "input_required", "requestState": "x"}),
        (NUMBER, {"task": {"taskId": "1"}}),
        (NUMBER, RawResult(b'{"content":[],"structuredContent":{"n":"x"}}')),
        ({"type": "nonsense"}, structured({})),
        ({"$ref": "#/gone"}, structured({})),
    ],
)
def test_nothing_is_told_where_nothing_is_wrong_or_known(
    caplog: pytest.LogCaptureFixture, schema: dict[str, Any] | None, result: dict[str, Any]
) -> None:
    anyio.run(OutputChecks().check, spec(schema), result)
    assert not told(caplog)


def test_a_call_is_answered_all_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrong = structured({"n": "hush-1"})
    entry = scripted_server(tool("count", outputSchema=NUMBER), results={"count": wrong})
    nothing: dict[str, Any] = {}
    with running(write_config(tmp_path / "c.json", {"s": entry})) as app:
        assert app.portal.call(app.app.call, "s__count", nothing) == wrong
        assert app.portal.call(app.app.call, "s__count", nothing) == wrong
    contradictions = [line for line in told(caplog) if "contradicts" in line]
    assert contradictions == [
        "s: a result of count contradicts its output schema: properties/n/type"
    ]


def test_a_long_validation_is_completed_in_a_thread_or_given_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The second is past every budget: each level asks for the next twice."""
    wide = {"properties": {f"p{i}": {"type": "number"} for i in range(400)}, "type": "object"}
    values = {f"p{i}": i for i in range(399)}
    anyio.run(OutputChecks().check, spec(wide), structured({**values, "p399": "x"}))
    assert told(caplog) == [
        "s: a result of count contradicts its output schema: properties/p399/type"
    ]
    levels = {f"l{i}": {"allOf": [{"$ref": f"#/$defs/l{i + 1}"}] * 2} for i in range(40)}
    defs = {**levels, "l40": {"type": "object"}}
    deep = {"$defs": defs, "allOf": [{"$ref": "#/$defs/l0"}, {"type": "string"}]}
    anyio.run(OutputChecks().check, spec(deep, "deep"), structured({}))
    assert len(told(caplog)) == 1
