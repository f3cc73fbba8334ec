"""Reads a client's messages from lines; a line that is no message is answered with an error.

Half an emoji becomes U+FFFD, and a message without ``jsonrpc`` gets it: the gateway takes neither.
"""

import json
import re
from typing import Any, cast

from toolscript.text.json_values import replace_half_characters

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')
_ANSWER = re.compile(rb'"(?:result|error)"\s*:')
_MOST = 2**63
"""Integers beyond this are no ids: programs that count in 64 bits change them."""


class UnreadableLineError(ValueError):
    """A line that is no message; ``answer`` is the client's, None for an answer of its own."""

    def __init__(self, line: bytes, code: int, reason: str, identifier: object = None) -> None:
        super().__init__(reason)
        self.answer: dict[str, Any] | None = None
        if b'"method"' in line or not _ANSWER.search(line):
            self.answer = {"id": identifier, "error": {"code": code, "message": reason}}


def read_line(line: bytes) -> tuple[bytes, dict[str, Any]]:
    """Returns a line as the gateway takes it, and the message in it.

    Raises `UnreadableLineError`.
    """
    line = replace_half_characters(line)
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        match = _ID.search(line)
        identifier = _decode(match[1]) if match else None
        raise UnreadableLineError(line, _PARSE_ERROR, f"no JSON: {error}", identifier) from None
    if not isinstance(value, dict):
        raise UnreadableLineError(line, _INVALID_REQUEST, "expected an object")
    message = cast("dict[str, Any]", value)
    identifier = message.get("id", "")
    if not _is_id(identifier):
        reason = "id is no string and no integer of 64 bits"
        shown = identifier if isinstance(identifier, int | float) else None
        raise UnreadableLineError(line, _INVALID_REQUEST, reason, shown)
    if not isinstance(message.get("method", ""), str):
        reason = "method is no string"
        raise UnreadableLineError(line, _INVALID_REQUEST, reason, message.get("id"))
    if "jsonrpc" in message:
        return line, message
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n", message


def _is_id(value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, str) or (isinstance(value, int) and -_MOST <= value < _MOST)


def _decode(identifier: bytes) -> object:
    try:
        return json.loads(identifier)
    except ValueError:
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
