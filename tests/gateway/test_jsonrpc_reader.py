"""Messages of servers: what is left out is filled in, and all else stays as it came."""

import json
from typing import Any

import pytest

from toolscript.gateway.jsonrpc_reader import complete_answer, read_message

FINE: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}
ERROR: dict[str, Any] = {"code": -1, "message": "no"}


@pytest.mark.parametrize(
    "message",
    [
        FINE,
        {"jsonrpc": "2.0", "id": 1, "error": ERROR},
        {"jsonrpc": "2.0", "method": "ping", "id": 1},
        {"method": "ping", "id": 1},
        {"jsonrpc": "2.0", "method": "notifications/progress"},
        {"level": "info"},
        [],
        None,
    ],
)
def test_a_message_that_lacks_nothing_stays_as_it_is(message: object) -> None:
    line = json.dumps(message, indent=2).encode()
    assert complete_answer(line) == line
    assert complete_answer(b"\xef\xbb\xbf" + line) == line


@pytest.mark.parametrize(
    ("message", "whole"),
    [
        ({"id": 1, "result": {"content": []}}, FINE),
        ({"jsonrpc": "1.0", "id": 1, "result": {"content": []}}, FINE),
        ({**FINE, "error": None}, FINE),
        ({"id": 1, "error": ERROR}, {"jsonrpc": "2.0", "id": 1, "error": ERROR}),
        ({**FINE, "result": None}, {**FINE, "result": {}}),
        ({**FINE, "result": []}, {**FINE, "result": {}}),
        ({**FINE, "result": "text"}, {**FINE, "result": {"content": "text"}}),
        ({**FINE, "result": [1]}, {**FINE, "result": {"content": [1]}}),
    ],
)
def test_an_answer_gets_what_it_lacks(message: dict[str, Any], whole: dict[str, Any]) -> None:
    line = json.dumps(message).encode()
    assert json.loads(complete_answer(line)) == whole
    assert read_message(line).model_dump(exclude_unset=True) == whole
