"""ResultReferences to stored results in the arguments of a call."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp.client import Client
from tests.support import Scripted, tool
from tests.surfaces.mcp.test_mcp import MODES, Mode, gateway, talk

from toolscript.errors import ArgumentsError, UnknownNameError
from toolscript.surfaces.mcp.result_references import (
    MAX_CHARS,
    MAX_REFERENCES,
    ResultReferences,
)
from toolscript.surfaces.mcp.result_truncation import StoredResult

ROWS = [{"id": number, "name": f"row {number}"} for number in range(700)]
STORED = {
    "rows": StoredResult(json.dumps({"rows": ROWS}), is_json=True, limit=5000, blocks={}),
    "large": StoredResult(json.dumps([{"a": ROWS * 20}, 7]), is_json=True, limit=5000, blocks={}),
    "text": StoredResult("one\ntwo", is_json=False, limit=5000, blocks={"content[1]": b'{"a":1}'}),
    "long": StoredResult("x" * (MAX_CHARS // 2 + 1), is_json=False, limit=5000, blocks={}),
}


def load(handle: str) -> bytes:
    if handle not in STORED:
        raise UnknownNameError(f"no result {handle!r} is kept here")
    return msgspec.msgpack.encode(STORED[handle])


def reference(handle: str, path: str = "") -> dict[str, str]:
    return {"$result": handle, "path": path} if path else {"$result": handle}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (reference("rows"), {"rows": ROWS}),
        (reference("rows", "rows[3].id"), 3),
        (reference("rows", "$.rows[3]"), ROWS[3]),
        (reference("rows", "rows[1:3].name"), ["row 1", "row 2"]),
        (reference("rows", "rows[699:900].id"), [699]),
        (reference("large"), [{"a": ROWS * 20}, 7]),
        (reference("text"), "one\ntwo"),
        (reference("text", "content[1]"), {"a": 1}),
        (reference("text", "content[1].a"), 1),
        ([1, {"deep": [reference("rows", "rows[0].id")]}], [1, {"deep": [0]}]),
        ({"path": "a", "result": "rows"}, {"path": "a", "result": "rows"}),
        ("$result", "$result"),
    ],
)
def test_a_reference_stands_for_a_part_of_a_result(given: Any, expected: Any) -> None:
    arguments = {"a": given, "b": None}
    before = json.dumps(arguments)
    references = ResultReferences(arguments)
    assert bool(references) == (given != expected)
    assert references.replace(load) == {"a": expected, "b": None}
    assert json.dumps(arguments) == before


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (reference("gone"), UnknownNameError, "no result 'gone' is kept here"),
        (reference("rows", "rows[900].id"), ArgumentsError, "there is no"),
        (reference("rows", "lines"), ArgumentsError, "there is no lines in {rows: list of 700"),
        (reference("text", "a"), ArgumentsError, "path is for JSON, and this result is a text"),
        ({"$result": 7}, ArgumentsError, "is no reference; send"),
        ({"$result": "rows", "lines": "1"}, ArgumentsError, "is no reference; send"),
        ([reference("text")] * (MAX_REFERENCES + 1), ArgumentsError, "at most 32 results"),
        ([reference("long")] * 2, ArgumentsError, "have more than 16,000,000 characters"),
    ],
)
def test_a_wrong_reference_is_one_line(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        ResultReferences({"a": given}).replace(load)


@pytest.mark.parametrize("mode", MODES)
def test_a_result_is_passed_on_without_being_read(
    scripted: Scripted, tmp_path: Path, mode: Mode
) -> None:
    """The server gets the values; types are checked after they have taken their places."""
    whole = {"content": [{"type": "text", "text": json.dumps(ROWS)}]}
    numbers = {"type": "array", "items": {"type": "integer"}}
    take = tool("take", inputSchema={"type": "object", "properties": {"ids": numbers}})
    server = scripted(tool("rows"), take, results={"rows": whole})
    server["resultLimit"] = {"rows": 5000, "*": 20_000}

    async def work(client: Client) -> None:
        async def call(name: str, **arguments: Any) -> str:
            given = {"tool": f"many__{name}", "arguments": arguments}
            result = await client.call_tool("call_destructive_tool", given)
            return str(getattr(result.content[0], "text", ""))

        [handle] = re.findall(r'{"\$result": "(\w+)"}', await call("rows"))
        answer = json.loads(await call("take", ids=reference(handle, "[10:200].id")))
        assert answer["arguments"] == {"ids": list(range(10, 200))}
        wrong = await call("take", ids=reference(handle, "[0].name"))
        assert "ids" in wrong
        assert "array" in wrong
        assert "no result 'elsewhere'" in await call("take", ids=reference("elsewhere"))
        async with Client(f"{address}/mcp", mode=mode) as other:
            given = {"tool": "many__take", "arguments": {"ids": reference(handle, "[0:2].id")}}
            elsewhere = await other.call_tool("call_destructive_tool", given)
        assert elsewhere.is_error == (mode == "legacy")

    with gateway(tmp_path, many=server) as address:
        talk(f"{address}/mcp", work, mode)
