"""Results that are too long for a model: what it gets of them, and how it reads the rest."""

import base64
import json
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolscript.errors import ArgumentsError
from toolscript.surfaces.mcp.result_reading import read_more, read_value
from toolscript.surfaces.mcp.result_truncation import shorten
from toolscript.types import RESULT_LIMIT, ToolSpec

LIMIT = 4000
ROWS = [{"id": number, "name": f"row {number}", "price": number / 2} for number in range(900)]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"limit": {}, "start_row": {}, "table": {}},
}
SPEC = ToolSpec(server="big", name="rows", input_schema=SCHEMA)


class Model:
    """Gets one result, and reads more of it."""

    def __init__(self, result: dict[str, Any], limit: int = LIMIT, **more: Any) -> None:
        self.kept = b""
        self.result = shorten(json.dumps(result).encode(), limit, self.keep, SPEC, **more)

    def keep(self, content: bytes) -> str:
        self.kept = content
        return "h"

    @property
    def text(self) -> str:
        return self.result["content"][0]["text"]

    def more(self, **asked: str) -> str:
        [block] = self.block(**asked)
        return block["text"]

    def pages(self) -> str:
        """Reads all of it, page by page."""
        last, pieces = 0, list[str]()
        while True:
            label, _, part = self.more(lines=f"{last + 1}-").partition(":\n")
            assert len(label) + len(part) < LIMIT
            _, _, _, read, _, total = label.split()
            last = int(read)
            pieces.append(part)
            if last == int(total):
                return "".join(pieces)

    def block(self, **asked: str) -> list[dict[str, Any]]:
        return read_more(self.kept, **asked)["content"]


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def image(width: int, height: int, size: int = 3000) -> dict[str, Any]:
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return {
        "type": "image",
        "mimeType": "image/png",
        "data": base64.b64encode(head + bytes(size)).decode(),
    }


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        (['{\n "a": 1,\n "b": "é"\n}'], {"a": 1, "b": "é"}),
        (["hello"], {"result": "hello"}),
        (["5"], {"result": 5}),
        (['{"id": 1}', '{"id": 2}'], {"result": [{"id": 1}, {"id": 2}]}),
        (['[{"id": 1}]'], {"rows": [{"id": 1}]}),
    ],
)
def test_nothing_is_said_twice(texts: list[str], structured: Any) -> None:
    content = [text(each) for each in texts]
    result = Model({"content": content, "structuredContent": structured}).result
    assert result == {"content": content}


@pytest.mark.parametrize("structured", [{"rows": 5}, {"a": "hello", "b": 1}, {}])
def test_what_the_texts_do_not_say_stays(structured: Any) -> None:
    result = {"content": [text("hello")], "structuredContent": structured, "isError": False}
    assert Model(result).result == result


def test_a_client_that_knows_the_output_schema_gets_the_structured_content() -> None:
    result = {"content": [text(json.dumps(ROWS))], "structuredContent": {"result": ROWS}}
    model = Model(result, is_typed=True)
    assert model.result["structuredContent"] == {"result": ROWS}
    assert len(model.text) <= LIMIT


def test_rows_are_shown_from_their_beginning() -> None:
    structured = {"result": ROWS, "total": 900}
    indented = json.dumps(structured, indent=2)
    model = Model({"content": [text(indented)], "structuredContent": structured})
    assert model.result.keys() == {"content"}
    assert len(model.text) <= LIMIT
    more = "read_result with handle 'h' and lines (such as '61-120') or grep or query (such as "
    assert f"For more, within an hour: {more}'result[0:20]')." in model.text
    assert "Or call big__rows for less: it takes limit, start_row." in model.text
    assert '\n{"id":0,"name":"row 0","price":0.0},\n{"id":1,' in model.text
    assert model.more(lines="3").endswith('of 903:\n{"id":1,"name":"row 1","price":0.5},\n')
    assert model.more(query="result[10:12].name") == '["row 10","row 11"]'
    assert model.more(query="total") == "900"
    found = model.more(query="result[?price > `448`]").splitlines()
    assert found[:2] == ["[", '{"id":897,"name":"row 897","price":448.5},']
    assert len(found) == 5
    matches = model.more(grep="ROW 89")
    assert matches.startswith("11 lines of 903 with 'ROW 89'\n91: {")
    assert len(model.more(query="result")) <= LIMIT
    assert json.loads(read_value(model.kept, "")) == structured
    assert json.loads(read_value(model.kept, "result[1:].id | length(@)")) == 899
    assert len(model.more(lines="1-")) <= LIMIT


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(max_size=300) | st.text("\r\n \u2028é", max_size=50)), st.integers(1, 40))
def test_pages_together_are_what_the_server_has_sent(texts: list[str], times: int) -> None:
    """Texts to the character; several of them are joined by line feeds."""
    parts = [each * times for each in [*texts, "-" * (LIMIT + 1)]]
    model = Model({"content": [text(each) for each in parts]})
    assert model.pages() == "\n".join(parts)
    assert json.loads(read_value(model.kept, "")) == "\n".join(parts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_pages_of_json_together_are_the_json(value: Any) -> None:
    """Every number and string as the server wrote it; only the spaces between them differ."""
    sent = json.dumps({"value": value, "much": ["-" * LIMIT] * 3}, indent=3)
    model = Model({"content": [text(sent)]})
    compact = msgspec.json.format(sent.encode(), indent=-1)
    assert msgspec.json.format(model.pages().encode(), indent=-1) == compact


def test_everything_else_that_is_left_out_is_had_by_its_name() -> None:
    noted = {**text("a" * 5000), "annotations": {"audience": ["user"]}}
    resource = {"type": "resource", "resource": {"uri": "file:///x", "text": "of x"}}
    meta = {"vendor/x": [{"deep": "b" * 1000}]}
    model = Model({"content": [noted, resource], "_meta": meta, "more": {"y": 1}})
    assert model.text.splitlines()[1] == "Left out: _meta, 1.0 kB"
    assert model.result["more"] == {"y": 1}
    assert "or query (such as '_meta')." in model.text
    assert model.block(query="content[1]") == [resource]
    assert json.loads(model.more(query="_meta")) == meta
    assert model.block(query="content[0]") == [noted]
    with pytest.raises(ArgumentsError, match="query is for JSON, and this result is a text"):
        model.block(query="content[0].annotations")
    both = Model({"content": [noted], "structuredContent": {"rows": ROWS}})
    assert both.more(query="rows[7].id") == "7"


@pytest.mark.parametrize("place", [0, 1_997, 1_999, 2_000, 49_994])
def test_a_text_is_found_wherever_it_is(place: int) -> None:
    """Also from one piece of a long line to the next."""
    whole = "-" * place + "NEEDLE" + "-" * (50_000 - 6 - place)
    found = Model({"content": [text(whole)]}).more(grep="needle")
    assert found.startswith(f"1 line of 25 with 'needle'\n{place // 2000 + 1}: ")
    assert "NEEDLE" in found


def test_a_text_is_found_once_a_line_and_no_more_often_than_is_of_use() -> None:
    model = Model({"content": [text("aa" * 4000 + "\n" + "aa\n" * 1500)]})
    lines = model.more(grep="A").splitlines()
    assert lines[0].startswith("1000 lines or more of 1505 with 'A', ")
    assert [line.partition(":")[0] for line in lines[1:6]] == ["1", "2", "3", "4", "6"]
    assert model.more(grep="b") == "0 lines of 1505 with 'b'"
    longer = Model({"content": [text("\u0130" * LIMIT + "\nNeedle here\n")]})  # in lower case
    assert longer.more(grep="nEEDLE").endswith("\n4: Needle here")


def test_large_json_that_is_no_text_is_read_as_well() -> None:
    many = [[n, n] for n in range(80_000)]
    model = Model({"content": [], "structuredContent": {"pairs": many}}, RESULT_LIMIT)
    assert "or query (such as 'pairs[0:20]')." in model.text
    assert model.more(query="pairs[79999]") == "[79999,79999]"


@pytest.mark.parametrize(
    "content",
    ["no list", [1, 2], [{"type": "text"}], [{"type": "text", "text": None}], {"a": "b" * 9000}],
)
def test_a_content_that_breaks_the_protocol_is_shown(content: Any) -> None:
    model = Model({"content": content})
    assert "content" in model.result
    assert len(json.dumps(model.result)) <= LIMIT


def test_images_count_by_their_pixels() -> None:
    small = {"content": [image(800, 600) for _ in range(5)]}
    assert Model(small).result["content"][1:] == small["content"][1:2]
    assert Model(small, 5 * 640 * 4 + 4).result == small
    model = Model({"content": [text("a chart"), image(20_000, 10), image(100, 100)]})
    assert [block["type"] for block in model.result["content"]] == ["text", "image"]
    assert "Left out: content[1], image/png, 20000 × 10 pixels, 3.0 kB" in model.text
    assert model.text.endswith("\na chart")
    with pytest.raises(ArgumentsError, match="which no model can be shown"):
        model.block(query="content[1]")
    several = Model({"content": [image(2000, 2000) for _ in range(9)]})
    assert several.block(query="content[8]") == [image(2000, 2000)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"query": "resul"}, 'query finds nothing in {"result":'),
        ({"query": "result[a]"}, "query: Expecting: star"),
        ({"lines": "0"}, "lines is '0'; send numbers from 1 to 902"),
        ({"lines": "x-y"}, "lines is 'x-y'; send numbers from 1 to 902"),
        ({"lines": "5000"}, "lines is '5000'; send numbers"),
        ({"lines": "1", "grep": "row"}, "lines, grep and query are given together; send one"),
    ],
)
def test_a_question_that_leads_nowhere_says_so(asked: dict[str, str], message: str) -> None:
    model = Model({"content": [text(json.dumps({"result": ROWS}))]})
    with pytest.raises(ArgumentsError, match=message):
        model.block(**asked)
