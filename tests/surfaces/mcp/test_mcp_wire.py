"""The results of the meta tools: answers within their budget."""

import json

from msgspec.structs import replace

from toolscript.app.scoped_catalogue import KnownTool
from toolscript.app.searching import Found
from toolscript.codegen.api_definitions import list_entry
from toolscript.surfaces.mcp import wire
from toolscript.types import Document, Hit, SearchResult, ServerStatus, ToolSpec


def test_an_answer_stays_within_its_budget_and_loses_no_hit() -> None:
    properties = {f"parameter_{n}": {"type": "string"} for n in range(100)}
    for count in (1, 10, 50):
        tools = {
            f"s__t{n}": ToolSpec(
                server="s",
                name=f"t{n}",
                description="word " * 5000,
                input_schema={"type": "object", "properties": properties},
            )
            for n in range(count)
        }
        hits = tuple(
            Hit(document=Document.of(spec), score=0.5, reason="", signals={})
            for spec in tools.values()
        )
        result = SearchResult(hits=hits, limit=count, threshold=0)
        known = {name: KnownTool(spec, "pinned") for name, spec in tools.items()}
        answer = wire.tools_found("x", Found(result, known))
        assert len(answer["tools"]) == count
        texts = [(hit["description"], hit["signature"]) for hit in answer["tools"]]
        assert len(json.dumps(texts)) <= wire.MAX_ANSWER_CHARS + 10 * count


def test_servers_that_were_not_searched_are_named_within_bounds() -> None:
    states = [
        ServerStatus(name=f"s{n}", state="failed", error="no key\n" * 1000) for n in range(12)
    ]
    nothing = SearchResult(hits=(), limit=5, threshold=0)
    answer = wire.tools_chosen(Found(nothing, missing=states), {})
    assert [row["server"] for row in answer["not_searched"]] == [f"s{n}" for n in range(10)]
    assert answer["more_not_searched"] == 2
    assert all(len(row["why"]) <= 200 and "\n" not in row["why"] for row in answer["not_searched"])
    assert "not_searched" not in wire.tools_chosen(Found(nothing), {})


def test_a_list_has_the_users_word_in_place_of_the_servers_and_no_guess() -> None:
    stated = {"destructiveHint": True, "idempotentHint": True}
    spec = ToolSpec(server="s", name="get_all", annotations=stated)
    assert list_entry(spec, "t")["annotations"] == stated
    assert list_entry(replace(spec, config_class="read"), "t")["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
    }
    guessed = replace(spec, annotations=None)
    assert guessed.tool_class == "read"
    assert "annotations" not in list_entry(guessed, "t")
