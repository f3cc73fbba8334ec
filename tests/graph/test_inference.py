from typing import Any

import pytest

from toolscript.graph.inference import MAX_MENTIONS, MAX_NEEDS, MAX_TOOLS, inferred
from toolscript.types import ToolSpec


def tool(name: str, description: str = "", server: str = "s", **more: Any) -> ToolSpec:
    return ToolSpec(server=server, name=name, description=description, **more)


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.requirement("graph:learning")
@pytest.mark.parametrize(
    "said",
    [
        "You must call 'list_tables' first to get the names.",
        "Use after list_tables.",
        "The name of a table, obtained from the `list_tables` tool.",
        "First use list_tables() to see what there is.",
        "Takes a name returned by list_tables.",
        "Call list_tables before using this.",
    ],
)
def test_a_description_that_names_what_comes_first(said: str) -> None:
    """graph:learning"""
    found = inferred([tool("describe_table", said), tool("list_tables")])
    assert found == {
        "s__describe_table": {"s__list_tables": "its description names list_tables first"}
    }


@pytest.mark.parametrize(
    "said",
    [
        "Describes a table. See also list_tables.",
        "Do not call list_tables first.",
        "Use list_tables instead.",
        "Unlike list_tables, this reads one.",
        "Then pass the result to list_tables.",
        "When there are many, use list_tables.",
        "Returns what relist_tables_2 gives first.",
    ],
)
def test_a_description_that_names_another_tool_for_other_reasons(said: str) -> None:
    assert inferred([tool("describe_table", said), tool("list_tables")]) == {}


def test_a_name_that_is_a_plain_word_is_no_evidence() -> None:
    assert inferred([tool("describe_table", "Use search first."), tool("search")]) == {}


def test_of_names_that_stand_in_one_another_the_longest_is_meant() -> None:
    names = ["read_file", "files.read_file", "files.read_file/all", "@files/read_file"]
    said = {name: f"Use after {name}." for name in names}
    found = inferred([tool("edit", " ".join(said.values())), *map(tool, names)])
    assert sorted(found["s__edit"]) == sorted(f"s__{name}" for name in names)
    for name, text in said.items():
        assert list(inferred([tool("edit", text), *map(tool, names)])["s__edit"]) == [f"s__{name}"]
    assert inferred([tool("edit", "Use after files.read_file_2."), *map(tool, names)]) == {}


def test_very_many_names_that_are_nearly_alike_are_looked_for_at_once() -> None:
    """graph:learning: it would take minutes to try one name after the other."""
    alike = "c" * 100
    names = [f"{'pq'[number % 2]}{alike}_{number:05}" for number in range(MAX_TOOLS)]
    text = f"p{alike}_99999 " * 70
    found = inferred([tool(name, f"Use after {names[0]}. {text}") for name in names])
    assert set(map(len, found.values())) == {1}
    assert len(found) == len(names) - 1


def test_a_tool_needs_only_so_many_others() -> None:
    names = [f"tool_{number}" for number in range(MAX_MENTIONS + 1)]
    passed_over = "".join(f" {name}" for name in names[:MAX_MENTIONS])
    every = "".join(f" Use after {name}." for name in names)
    late = f"{passed_over}. Use after {names[-1]}."
    found = inferred([tool("much", every), tool("late", late), *map(tool, names)])
    assert list(found) == ["s__much"]
    assert list(found["s__much"]) == [f"s__{name}" for name in names[:MAX_NEEDS]]


def test_an_identifier_that_one_result_has_and_a_parameter_requires() -> None:
    """graph:learning"""
    row = {"type": "object", "properties": {"issue_id": {"type": "string"}, "title": {}}}
    output = schema(issues={"type": "array", "items": row})
    tools = [
        tool("search_issues", input_schema=schema("text", text={}), output_schema=output),
        tool("close_issue", input_schema=schema("issue_id", issue_id={}, title={})),
        tool("rename", input_schema=schema("title", title={})),
        tool("maybe", input_schema=schema(issue_id={})),
        tool("close_issue", server="other", input_schema=schema("issue_id", issue_id={})),
    ]
    assert inferred(tools) == {
        "s__close_issue": {"s__search_issues": "its parameter issue_id is in the result"}
    }
    twice = [*tools, tool("list_issues", output_schema=output)]
    assert inferred(twice) == {}


def test_two_tools_that_name_each_other_tell_nothing() -> None:
    both = [tool("open_it", "Call close_it first."), tool("close_it", "Call open_it first.")]
    assert inferred(both) == {}


@pytest.mark.parametrize(
    "odd", [{"properties": 3}, {"properties": {"a_id": 1}, "required": "a_id"}]
)
def test_schemas_of_any_kind_are_read(odd: dict[str, Any]) -> None:
    assert inferred([tool("a_b", input_schema=odd, output_schema=odd), tool("c_d")]) == {}
