"""Whatever the schema, the real compilers accept the module, and its valid values."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, assume, given, settings
from hypothesis import strategies as st

from tests.codegen.schemas import Case, anything, cases, shown
from tests.compilers import Complaint, deno_check, pyright, tsc
from toolscript.codegen.schema import read
from toolscript.codegen.type_tree import Unknown
from toolscript.codegen.typed_clients import make_module, tool_code
from toolscript.types import ToolSpec

IN_BULK = settings(
    max_examples=1,
    phases=[Phase.generate],  # a compiler's run is dear: many schemas at once, nothing shrunk
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
    database=None,
    verbosity=Verbosity.quiet,  # the message says which schema it was
)
HOSTILE = "*/ `${x}` ``` </script> a\u2028b \x00\x1b[31m \u202e \"\"\" ''' \\ @ts-expect-error"
_NAMES = """
    read_file read-file readFile read\xa0file delete class constructor __proto__ then 123 问题 ﬁle
    émile ! !! a.b/c None self params __init__ XParams list staticmethod $ ' " `${1}` \\ S_X S-X
"""
NAMES = [name.strip("\n") for name in _NAMES.split(" ") if name.strip("\n")]


def write(folder: Path, tools: list[ToolSpec]) -> dict[str, Path]:
    """The modules of these tools, as files."""
    known = {tool.id: tool for tool in sorted(tools, key=lambda tool: tool.id)}
    files = {
        "client.ts": make_module(known, "ts", tuple(known)),
        "client.py": make_module(known, "py", tuple(known)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in files.items():
        (folder / name).write_bytes(made.text)
    return {name: folder / name for name in files}


def tools_of(found: list[Case]) -> list[ToolSpec]:
    return [
        ToolSpec(server="s", name=f"t{at}", description="d", input_schema=case.schema)
        for at, case in enumerate(found)
    ]


def many_kinds(found: list[Any]) -> bool:
    """Whether this is more than the simplest schema over and over, which is tried first."""
    return len({shown(each) for each in found}) > len(found) / 2


def complaints(found: list[Complaint], lines: dict[int, str]) -> str:
    return "\n".join(f"{c.file}:{c.line}: {c.message}\n  {lines.get(c.line, '')}" for c in found)


@pytest.mark.requirement("types:typescript")
@IN_BULK
@given(found=st.lists(cases(), min_size=40, max_size=40))
def test_valid_values_are_assignable_in_typescript(
    found: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """types:typescript: what is valid under a schema fits its type."""
    assume(many_kinds([case.schema for case in found]))
    folder = tmp_path_factory.mktemp("ts")
    files = write(folder, tools_of(found))
    lines = ['import type * as m from "./client.ts";']
    about: dict[int, str] = {}
    for at, case in enumerate(found):
        for value in case.values:
            lines.append(f"export const v{len(lines)}: m.ST{at}Params = {json.dumps(value)};")
            about[len(lines)] = f"{shown(value)} of {shown(case.schema)}"
    (folder / "values.ts").write_text("\n".join(lines), "utf-8")
    wrong = tsc([*folder.glob("*.ts")], "--allowImportingTsExtensions")
    assert not wrong, complaints(wrong, about)
    assert not deno_check([files["client.ts"]])
    assert len(about) > len(found) / 2, "hardly any values"


@pytest.mark.requirement("types:python")
@IN_BULK
@given(found=st.lists(cases(), min_size=40, max_size=40))
def test_valid_values_are_assignable_in_python(
    found: list[Case], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """types:python: the same."""
    assume(many_kinds([case.schema for case in found]))
    folder = tmp_path_factory.mktemp("py")
    files = write(folder, tools_of(found))
    lines = ["import client as m"]
    about: dict[int, str] = {}
    for at, case in enumerate(found):
        for value in case.values:
            lines.append(f"v{len(lines)}: m.ST{at}Params = {value!r}")
            about[len(lines)] = f"{shown(value)} of {shown(case.schema)}"
    (folder / "values.py").write_text("\n".join(lines), "utf-8")
    wrong = pyright(folder)
    assert not wrong, complaints(wrong, about)
    code = compile(files["client.py"].read_text("utf-8"), "client.py", "exec")
    exec(code, {"__name__": "client"})  # noqa: S102 - our own module
    assert len(about) > len(found) / 2, "hardly any values"


@given(schema=anything())
def test_anything_at_all_gives_a_type(schema: Any) -> None:
    """types:typescript: reading is total."""
    read(schema)


@pytest.mark.requirement("types:typescript", "types:python")
@IN_BULK
@given(found=st.lists(anything(), min_size=40, max_size=40))
def test_anything_at_all_gives_modules_that_compile(
    found: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """types:typescript, types:python: valid or not."""
    assume(many_kinds(found))
    folder = tmp_path_factory.mktemp("any")
    tools = [
        ToolSpec(server="s", name=f"t{at}", input_schema=schema, output_schema=schema)
        for at, schema in enumerate(found)
    ]
    nothing = {"$ref": "#/$defs/a", "$defs": {"a": False}}
    for at, schema in enumerate((False, nothing, {"anyOf": [nothing, {"$ref": "#/$defs/b"}]})):
        tools.append(
            ToolSpec(server="n", name=f"t{at}", input_schema=schema, output_schema=schema)  # pyright: ignore[reportArgumentType] - whatever it is
        )
    files = write(folder, tools)
    about = {at: shown(schema) for at, schema in enumerate(found)}
    assert not tsc([files["client.ts"]]), about
    assert not deno_check([files["client.ts"]]), about
    assert not pyright(folder), about


def when(kind: str, then: Any) -> dict[str, Any]:
    return {"if": {"properties": {"kind": {"const": kind}}}, "then": then}


def of(**types: str) -> dict[str, Any]:
    return {"properties": {name: {"type": kind} for name, kind in types.items()}}


BASE: dict[str, Any] = {"type": "object", **of(kind="string")}
NESTED: dict[str, Any] = {"properties": {"in": {"type": "object", **of(y="string")}}}
CONDITIONAL: list[tuple[dict[str, Any], Any]] = [
    ({**BASE, "allOf": [when("a", of(a="string")), when("b", of(b="number"))]}, {"b": 1}),
    ({**BASE, **when("a", of(a="string")), "else": when("b", of(b="number"))}, {"b": 1}),
    ({**BASE, **when("a", {"$ref": "#/$defs/a"}), "$defs": {"a": of(a="string")}}, {"a": "x"}),
    (
        {**BASE, "dependentSchemas": {"kind": {"$ref": "#/$defs/a"}}, "$defs": {"a": of(a="null")}},
        {"kind": "b", "a": None},
    ),
    ({**BASE, **when("a", {"oneOf": [of(a="string"), of(b="string")]})}, {"b": "x"}),
    ({"$ref": "#/$defs/k", **when("a", of(a="null")), "$defs": {"k": BASE}}, {"a": None}),
    (
        {"type": "object", "properties": {"in": {"type": "object", **of(x="null")}},
         **when("a", NESTED)},
        {"in": {"x": None, "y": "x"}},
    ),
    ({**BASE, "anyOf": [of(a="string"), {"not": {"required": ["a"]}}]}, {"kind": "x", "a": "x"}),
    ({**BASE, "dependentRequired": {"kind": ["a"]}}, {"kind": "x", "a": 1}),
    ({**BASE, "oneOf": [of(**{f"p{at}": "number"}) for at in range(70)]}, {"kind": "x", "p69": 1}),
    (
        {"type": "object", "properties": {
            "id": {"type": "string"}, "child": {"$ref": "#", "required": ["id"]}}},
        {"child": {"id": "x", "child": {"id": "y"}}},
    ),
    ({"properties": {"n": {"type": "integer", "enum": [1.0, 2.0, 3]}}}, {"n": 2}),
    ({"properties": {"n": {"enum": [1, 2], "allOf": [{"enum": [2.0, 3]}]}}}, {"n": 2}),
    (
        {"properties": {"t": {"prefixItems": [of(a="null")], "allOf": [{"items": of(b="null")}]}}},
        {"t": [{"a": None, "b": None}]},
    ),
]  # fmt: skip
"""Schemas, and a value of each that is only told by a condition, or among very many branches."""


@pytest.mark.requirement("types:typescript", "types:python")
def test_what_cannot_be_merged_makes_types_wider(tmp_path: Path) -> None:
    """types:typescript, types:python: never narrower."""
    cases = [Case(schema, (value,)) for schema, value in CONDITIONAL]
    write(tmp_path, tools_of(cases))
    script, python = ['import type * as m from "./client.ts";'], ["import client as m"]
    for at, case in enumerate(cases):
        script.append(f"export const v{at}: m.ST{at}Params = {json.dumps(case.values[0])};")
        python.append(f"v{at}: m.ST{at}Params = {case.values[0]!r}")
    (tmp_path / "values.ts").write_text("\n".join(script), "utf-8")
    (tmp_path / "values.py").write_text("\n".join(python), "utf-8")
    wrong = tsc([*tmp_path.glob("*.ts")], "--allowImportingTsExtensions")
    assert not wrong
    assert not pyright(tmp_path)


def test_an_index_with_too_many_digits_is_nowhere() -> None:
    """types:typescript: Python refuses to convert it."""
    schema: dict[str, Any] = {"$ref": f"#/allOf/{'9' * 5000}", "allOf": [{}]}
    assert read(schema).root == Unknown("it refers to what is not in the schema")


@pytest.mark.requirement("types:typescript", "types:python")
def test_a_tool_whose_schema_fails_leaves_the_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """types:typescript, types:python: what is unforeseen costs one tool its types."""
    text: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    odd: dict[str, Any] = {"type": "object", "properties": Unforeseen(a=text)}
    tools = [
        ToolSpec(server="s", name="odd", input_schema=odd, output_schema=odd),
        ToolSpec(server="s", name="plain", input_schema=text, output_schema=text),
    ]
    known = {tool.id: tool for tool in tools}
    module = make_module(known, "ts", tuple(known)).text.decode()
    assert "export type SOddParams = unknown;" in module
    assert "export interface SPlainParams {\n  a?: string;\n}" in module
    module = make_module(known, "py", tuple(known)).text.decode()
    assert 'SOddResult: TypeAlias = "Any"' in module
    assert "class SPlainResult(TypedDict):\n    a: NotRequired[str]" in module
    assert "tools.s.odd(" in tool_code(known, "s__odd", {})["py"].usage
    assert "no types can be made for the tool s__odd" in caplog.text


class Unforeseen(dict[str, Any]):
    """Fails when it is read."""

    def items(self) -> Any:
        raise RuntimeError("unforeseen")


@pytest.mark.requirement("types:typescript", "types:python")
def test_hostile_names_and_descriptions(tmp_path: Path) -> None:
    """types:typescript, types:python: names that collide or are reserved, texts that break out."""
    schema = {
        "type": "object",
        "title": HOSTILE,
        "properties": {
            name: {"description": HOSTILE, "default": HOSTILE, "enum": [HOSTILE, name]}
            for name in NAMES
        },
        "required": NAMES[::2],
    }
    servers = ["s", "S", "s-", "s x", "class", "问题", "12306", "!", "constructor", "staticmethod"]
    few = {"type": "object", "properties": {"a": {"type": "string", "description": HOSTILE}}}
    tools = [
        ToolSpec(server=server, name=name, description=HOSTILE, input_schema=few)
        for server in servers
        for name in NAMES
    ]
    tools.append(ToolSpec(server="t", name="all", input_schema=schema, output_schema=schema))
    files = write(tmp_path, tools)
    assert not tsc([files["client.ts"]])
    assert not deno_check([files["client.ts"]])
    assert not pyright(tmp_path)
    text = files["client.ts"].read_text("utf-8")
    assert not any(bad in text for bad in ("```", "</script", "\x1b", "\u2028", "\u202e"))
