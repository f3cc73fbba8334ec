"""Stored secrets in a server's results, as objects and as raw JSON."""

import json
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolscript.gateway.raw_results import RawResult
from toolscript.gateway.upstream.secret_blanking import SecretBlanking
from toolscript.types import ToolSpec

SECRET = "Zq7xVeryPrivate"  # noqa: S105 - looked for where it must not be
BLANKING = SecretBlanking(lambda: (SECRET,))


def blanked(result: dict[str, Any]) -> dict[str, Any]:
    return anyio.run(BLANKING.blank_result, result)


def raw(text: bytes) -> RawResult:
    found = blanked(RawResult(text))
    assert isinstance(found, RawResult)
    return found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(f"a {SECRET}!"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text() | st.just(SECRET), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_each_text_and_name_is_blanked_as_objects_and_as_json(value: Any) -> None:
    result: dict[str, Any] = {"structuredContent": value, "_meta": {SECRET: SECRET}}
    shown = json.loads(json.dumps(result).replace(SECRET, "***"))
    assert blanked(result) == shown
    assert msgspec.json.decode(raw(json.dumps(result).encode()).text) == shown


def test_a_secret_is_found_in_any_spelling_of_json() -> None:
    assert raw(rb'{"x":"Zq\u0037xVeryPrivate"}').text == b'{"x":"***"}'


@pytest.mark.parametrize(
    "text",
    [
        rb'{"content" : [ {"\u00fc \/"	: "SECRET"} ], "n": -1.50e3, "isError": true}',
        rb'{"SECRET": "", "x": ["\"\\SECRET\"", {"": "SECRET"}], "isError":true}',
    ],
)
def test_the_rest_of_a_large_result_stays_byte_by_byte(text: bytes) -> None:
    found = raw(text.replace(b"SECRET", SECRET.encode()))
    assert found == {"isError": True}
    assert found.text == text.replace(b"SECRET", b"***")


def test_many_texts_are_blanked_batch_by_batch() -> None:
    rows = [SECRET, "", "plain"] * 40_000
    found = msgspec.json.decode(raw(json.dumps({"structuredContent": rows}).encode()).text)
    assert found == {"structuredContent": ["***", "", "plain"] * 40_000}


def test_the_result_of_a_task_is_blanked_with_its_state() -> None:
    whole = RawResult(json.dumps({"content": [SECRET]}).encode())
    task = blanked({"status": SECRET, "result": whole, "ttl": 5})
    assert (task["status"], task["ttl"]) == ("***", 5)
    assert task["result"].text == b'{"content": ["***"]}'


def test_a_state_and_results_of_servers_without_secrets_stay() -> None:
    asks = {"resultType": "input_required", "requestState": SECRET}
    assert blanked(asks) is asks
    result = {"content": [SECRET]}
    assert anyio.run(SecretBlanking(tuple).blank_result, result) is result


def test_a_definition_keeps_its_name() -> None:
    tool = ToolSpec(server="s", name=SECRET, description=f"It is {SECRET}.")
    shown = BLANKING.blank_definition(tool)
    assert (shown.name, shown.description) == (SECRET, "It is ***.")
    lists = {"prompts/list": ({"name": SECRET},)}
    assert BLANKING.blank_lists(lists) == {"prompts/list": ({"name": "***"},)}
