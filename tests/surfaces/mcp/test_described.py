"""The answer of describe_tools: whole definitions, within a bound."""

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from tests.support import Scripted, tool
from tests.surfaces.mcp.test_mcp import gateway, said, talk

from toolscript.app.scoped_catalogue import KnownTool
from toolscript.surfaces.mcp.wire import MAX_DESCRIBED_CHARS, described
from toolscript.types import ToolSpec

LONG, MANY = "\n".join(["A word.\x1b[1m"] * 5000), 800


def schema(parameters: int, about: str = "") -> dict[str, Any]:
    each = {"type": "string", "description": about}
    named = {f"parameter_{n:03}": each for n in range(parameters)}
    return {"type": "object", "properties": named, "required": ["parameter_799"][:parameters]}


@pytest.mark.parametrize(
    ("description", "parameters", "about"),
    [(LONG, 3, ""), (LONG, MANY, "x" * 200), ("", MANY, '"' * 200), ('"' * 60_000, 2, "")],
)
def test_a_definition_that_is_too_long_keeps_its_parameters(
    description: str, parameters: int, about: str
) -> None:
    given = schema(parameters, about)
    spec = ToolSpec(server="s", name="t", description=description, input_schema=given)
    [entry] = described([KnownTool(spec, "pinned")])["tools"]
    assert len(json.dumps(entry, ensure_ascii=False)) < MAX_DESCRIBED_CHARS * 1.01
    assert "a part of a definition of" in entry["shortened"]
    assert entry["call"] == "call_destructive_tool"
    assert entry["description"][:3] == description[:3]
    assert "\x1b" not in entry["description"]
    if parameters < MANY:
        assert entry["inputSchema"] == given
        assert len(entry["description"]) > 3000
    else:
        assert entry["parameters"].startswith("(parameter_799: string, parameter_000?: string, ")
        assert "parameter_798?" in entry["parameters"]


def test_tools_without_room_are_named(tmp_path: Path) -> None:
    """Twenty of the longest are no longer than one; ordinary ones beside them stay whole."""
    long = [tool(f"t{n}", LONG, inputSchema=schema(MANY)) for n in range(19)]
    listed = tmp_path / "tools"
    listed.write_text(json.dumps([*long, tool("plain", "Plain.")]), "utf-8")

    async def work(client: Client) -> None:
        ids = [f"s__{each['name']}" for each in long]
        answer = await said(client, "describe_tools", {"tools": ["s__plain", *ids]})
        assert len(json.dumps(answer, ensure_ascii=False)) < MAX_DESCRIBED_CHARS * 1.05
        assert answer["tools"][0]["description"] == "Plain."
        left = answer["left_out"]
        assert [each["id"] for each in answer["tools"]] + left["tools"] == ["s__plain", *ids]
        assert "describe them by themselves" in left["why"]
        answer = await said(client, "describe_tools", {"tools": left["tools"][:1]})
        assert [each["id"] for each in answer["tools"]] == left["tools"][:1]

    with gateway(tmp_path, s=Scripted(tmp_path)(tools_file=str(listed))) as url:
        talk(f"{url}/mcp", work)
