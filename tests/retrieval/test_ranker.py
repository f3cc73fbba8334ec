"""The small library: tools in, ranked tools out."""

from typing import Any

import anyio
import pytest

from toolscript import Ranker, ToolSpec
from toolscript.errors import InputError, QueryError


def mow_lawn(height_mm: int, edge: bool = False) -> None:  # noqa: FBT001, FBT002 - a tool's arguments
    """Cut the grass."""
    del height_mm, edge


def water_plants() -> None:
    """Water the plants in the garden."""


MCP: dict[str, Any] = {
    "name": "pick_apples",
    "description": "Harvest ripe fruit.",
    "inputSchema": {},
}
OPENAI = {"type": "function", "function": {"name": "sow", "description": "Put seeds into soil."}}
CLAUDE: dict[str, Any] = {"name": "rake", "description": "Gather leaves.", "input_schema": {}}


@pytest.fixture(scope="module")
def garden() -> Ranker:
    return Ranker([mow_lawn, water_plants, MCP, OPENAI, CLAUDE])


def test_every_form_of_a_definition_is_ranked(garden: Ranker) -> None:
    questions: dict[str, Any] = {
        "the lawn is too high": mow_lawn,
        "the flowers are thirsty": water_plants,
        "harvest fruit": MCP,
        "plant seeds": OPENAI,
        "leaves lie on the ground": CLAUDE,
    }
    firsts = {question: garden.rank(question, threshold=0.0)[0].source for question in questions}
    assert firsts == questions


def test_a_functions_arguments_become_a_schema(garden: Ranker) -> None:
    (tool,) = garden.rank("mow_lawn", limit=1)
    assert tool.spec.input_schema["properties"]["height_mm"] == {"type": "integer"}
    assert tool.spec.input_schema["required"] == ["height_mm"]


def test_a_changed_description_is_found_by_its_new_words() -> None:
    ranker = Ranker([{"name": "act", "description": "Does something."}])
    assert not ranker.rank("translate a letter into French")
    ranker.update([{"name": "act", "description": "Translates texts into French."}])
    assert [tool.name for tool in ranker.rank("translate a letter into French")] == ["act"]


def test_the_offered_list_only_grows_and_is_never_empty(garden: Ranker) -> None:
    first = [tool.name for tool in garden.narrow("the lawn is too high", limit=2)]
    assert first[0] == "mow_lawn"
    second = [tool.name for tool in garden.narrow("harvest fruit", first, limit=2)]
    assert second[: len(first)] == first
    assert "pick_apples" in second
    assert [tool.name for tool in garden.narrow("zxqv blorp", second)] == second
    assert garden.narrow("zxqv blorp"), "never nothing"
    assert [tool.name for tool in garden.narrow("zxqv blorp", ["gone", "sow"])] == ["sow"]


def test_tools_of_servers_have_their_ids_as_names() -> None:
    specs = [ToolSpec(server=server, name="read", description="Read it.") for server in "ab"]
    assert [tool.name for tool in Ranker(specs).tools] == ["a__read", "b__read"]


def test_without_tools_nothing_is_found() -> None:
    assert Ranker().rank("anything") == []
    assert Ranker().narrow("anything") == []


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="two tools are called tools__mow_lawn"):
        Ranker([mow_lawn, mow_lawn])
    with pytest.raises(InputError, match="int is no tool"):
        Ranker([1])
    with pytest.raises(QueryError):
        Ranker([mow_lawn]).rank(" ")


def test_a_refused_update_leaves_the_former_tools(garden: Ranker) -> None:
    with pytest.raises(InputError):
        garden.update([MCP, MCP])
    assert len(garden.tools) == 5


def test_event_loops_are_not_blocked(garden: Ranker) -> None:
    async def main() -> list[str]:
        await garden.aupdate(tool.source for tool in garden.tools)
        ranked = await garden.arank("harvest fruit")
        offered = await garden.anarrow("harvest fruit")
        return [ranked[0].name, offered[0].name]

    assert anyio.run(main) == ["pick_apples", "pick_apples"]
