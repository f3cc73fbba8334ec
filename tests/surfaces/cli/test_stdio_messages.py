"""Each line of a client is a message, or gets an answer."""

import json
from typing import Any

import pytest

from toolscript.surfaces.cli.stdio_messages import UnreadableLineError, read_line

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize(
    ("line", "code", "identifier"),
    [
        (b'{"jsonrpc":"2.0","id":"trailing","method":"ping",}', -32700, "trailing"),
        (b'{"jsonrpc":"2.0","id":"cut","method":"pi', -32700, "cut"),
        (b'{"id":7,"method":"m","params":{"limit":NaN}}', -32700, 7),
        (b'{"id":"\xff","method":"m"}', -32700, None),
        (b"Content-Length: 40", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'[{"id":1,"method":"ping"}]', -32600, None),
        (b'{"id":null,"method":"ping"}', -32600, None),
        (b'{"id":[1],"method":"ping"}', -32600, None),
        (b'{"id":true,"method":"ping"}', -32600, True),
        (b'{"id":1.5,"method":"ping"}', -32600, 1.5),
        (b'{"id":12345678901234567890,"method":"ping"}', -32600, 12345678901234567890),
        (b'{"id":7,"method":["ping"]}', -32600, 7),
    ],
)
def test_a_request_that_cannot_be_read_is_answered(
    line: bytes, code: int, identifier: object
) -> None:
    with pytest.raises(UnreadableLineError) as unreadable:
        read_line(line)
    answer = unreadable.value.answer
    assert answer
    assert (answer["error"]["code"], answer["id"]) == (code, identifier)


@pytest.mark.parametrize("line", [b'{"id":1,"result":{}', b'{"id":[1],"error":{"code":1}}'])
def test_an_answer_that_cannot_be_read_gets_none(line: bytes) -> None:
    with pytest.raises(UnreadableLineError) as unreadable:
        read_line(line)
    assert unreadable.value.answer is None


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r"cut \ud83d", "cut \N{REPLACEMENT CHARACTER}"),
        (r"\udE00 cut", "\N{REPLACEMENT CHARACTER} cut"),
        (r"whole \ud83d\ude00", "whole \N{GRINNING FACE}"),
    ],
)
def test_half_an_emoji_is_replaced(text: str, read: str) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"%s"}}\n' % text.encode()
    sent, message = read_line(line)
    assert json.loads(sent) == message == PING | {"method": "m", "params": {"t": read}}


def test_a_message_is_kept_and_completed() -> None:
    line = json.dumps(PING).encode() + b"\n"
    assert read_line(line) == (line, PING)
    sent, _ = read_line(b'{"id":1,"method":"ping"}\n')
    assert json.loads(sent) == PING
    assert sent.endswith(b"\n")
