"""The Python module: its form, and what each schema becomes."""

from pathlib import Path
from typing import Any

import pytest

from tests.compilers import pyright
from toolscript.codegen import python
from toolscript.codegen.identifiers import Identifiers
from toolscript.types import ToolSpec

TEXT, NUMBER = {"type": "string"}, {"type": "number"}
READ = ToolSpec(
    server="desktop-commander",
    name="read_file",
    description='Read "file"',
    input_schema={
        "type": "object",
        "properties": {"path": TEXT, "from": {"type": "integer", "description": "First line"}},
        "required": ["path"],
    },
    output_schema={"type": "object", "properties": {"content": TEXT}, "required": ["content"]},
)
FORM = '''\
DesktopCommanderReadFileParams = TypedDict(
    "DesktopCommanderReadFileParams",
    {
        "path": "str",
        # First line
        "from": "NotRequired[int]",
    },
)


class DesktopCommanderReadFileResult(TypedDict):
    content: str


class _DesktopCommanderTools:
    async def read_file(self, params: DesktopCommanderReadFileParams) -> DesktopCommanderReadFileResult:
        """Read "file\\""""
        return await _answer("desktop-commander__read_file", params, structured=True)


class _Tools:
    desktop_commander = _DesktopCommanderTools()


tools = _Tools()
'''  # noqa: E501 - as it is generated


def module(*tools: ToolSpec) -> str:
    return python.module(tools, Identifiers((tool.server, tool.name) for tool in tools))


def of(schema: Any) -> str:
    return module(ToolSpec(server="s", name="t", input_schema=schema))


def test_the_form_of_the_module() -> None:
    assert FORM in module(READ)


def test_the_example_calls_the_tool_with_what_it_needs() -> None:
    example = python.usage(READ, Identifiers([(READ.server, READ.name)]))
    assert example == 'await tools.desktop_commander.read_file({"path": "file.txt"})'


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (TEXT, "str"),
        (NUMBER, "float"),
        ({"type": "integer"}, "int"),
        ({"type": "boolean"}, "bool"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"enum": ["a", 1, None, True, 0.5]}, 'Literal["a", 1, True] | None | float'),
        ({"type": "array", "items": TEXT}, "list[str]"),
        ({"prefixItems": [TEXT, NUMBER], "items": False}, "list[str | float]"),
        ({"type": "array", "items": {"enum": [1]}}, "list[Literal[1]]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"additionalProperties": NUMBER}, "dict[str, float]"),
        ({"anyOf": [TEXT, {}]}, "Any"),
        (False, "Never"),
    ],
    ids=str,
)
def test_what_a_schema_becomes(schema: Any, expected: str) -> None:
    assert f"    x: NotRequired[{expected}]\n" in of({"properties": {"x": schema}})


def test_what_cannot_be_read_says_why() -> None:
    """types:python: behind the line."""
    text = of({"properties": {"x": {"type": "PublicKey"}}})
    assert "x: NotRequired[Any]  # its type is none that JSON Schema has\n" in text


def test_a_field_without_a_name_makes_a_dictionary_of_any(tmp_path: Path) -> None:
    """types:python: a TypedDict cannot say it."""
    written = of({"type": "object", "properties": {"": {"type": "string"}, "a": {}}})
    assert ": TypeAlias = dict[str, Any]" in written
    (tmp_path / "tools.py").write_text(written, "utf-8")
    assert pyright(tmp_path) == []


def test_what_is_nested_gets_a_class() -> None:
    """types:python: named after where it is, before what needs it."""
    inner = {"type": "object", "properties": {"b-c": TEXT}}
    text = of({"properties": {"a": {"type": "array", "items": inner}}})
    assert text.index('STParams_A = TypedDict(\n    "STParams_A"') < text.index("class STParams(")
    assert "a: NotRequired[list[STParams_A]]" in text


FITS: list[tuple[Any, list[Any], list[Any]]] = [
    (TEXT, ["a"], [1, None]),
    ({"type": "integer"}, [1], [1.5, "1"]),
    ({"enum": ["a", 1]}, ["a", 1], ["b", 2]),
    ({"type": "array", "items": TEXT}, [[], ["a"]], [[1], "a"]),
    ({"properties": {"a": TEXT}, "required": ["a"]}, [{"a": "x"}],
     [{}, {"a": 1}, {"a": "", "b": 1}]),
    ({"properties": {"a": TEXT}, "additionalProperties": True}, [{"a": "x", "b": 1}], [1]),
    ({"type": "object", "additionalProperties": False}, [{}], [{"a": 1}]),
    ({"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": NUMBER}}]},
     [{"a": "x", "b": 1}], [{"a": 1}, {"c": 1}]),
    ({"anyOf": [TEXT, {"properties": {"a": NUMBER}}]}, ["x", {"a": 1}], [1, {"a": "x"}]),
]  # fmt: skip


def test_what_fits_is_accepted_and_what_does_not_is_not(tmp_path: Path) -> None:
    """types:python: pyright has the word."""
    tools = [
        ToolSpec(server="s", name=f"t{at}", input_schema={"properties": {"x": schema}})
        for at, (schema, _, _) in enumerate(FITS)
    ]
    (tmp_path / "client.py").write_text(module(*tools), "utf-8")
    lines = ["import client as m"]
    wrong: set[int] = set()
    for at, (_, good, bad) in enumerate(FITS):
        for value in (*good, *bad):
            lines.append(f"v{len(lines)}: m.ST{at}Params = {{'x': {value!r}}}")
            wrong |= set() if value in good else {len(lines)}
    (tmp_path / "values.py").write_text("\n".join(lines), "utf-8")
    found = pyright(tmp_path)
    assert {each.file for each in found} == {"values.py"}
    assert {each.line for each in found} == wrong
