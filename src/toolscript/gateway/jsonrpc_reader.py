"""Reads JSON-RPC messages from servers, and keeps the results of large ones as raw JSON.

The SDK's own reader takes half a second for a megabyte of small values, and the event
loop waits. Small messages are left to it. Of anything larger only the envelope is read.
"""

import codecs
import re
from typing import Any, cast

import msgspec
from mcp_types import JSONRPCMessage, JSONRPCResponse, RequestId, jsonrpc_message_adapter
from pydantic import ValidationError

from toolscript.gateway.raw_results import in_thread_if_large, is_moderate
from toolscript.text.display import printable
from toolscript.text.json_values import replace_half_characters

MESSAGE_BYTES = 16 * 1024 * 1024
"""No longer message of a server is read."""
SMALL_BYTES = 64 * 1024
"""Up to this size the SDK reads a message."""
MARGIN_BYTES = 1024
"""The id of the request that a message answers is looked for in so many bytes at either end."""
_REPAIRABLE_BYTES = 1024 * 1024

_ID_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\b')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_NOTHING = {b"null", b"[]"}
"""Results that some languages write in the place of an empty object."""
_CONTENT = re.compile(rb'"result"|"error"')


class UnparsedResult(msgspec.Struct, frozen=True):
    """A result as the JSON text that it came as."""

    text: bytes
    """Empty if it could not be told from the rest of the message."""
    problem: str = ""
    """Why it could not be read; empty if it is only large."""


class _Envelope(msgspec.Struct):
    jsonrpc: Any = None
    id: int | str | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw(b"null")


def read_message(line: bytes) -> JSONRPCMessage:
    """Returns a message; raises `ValueError` for text that is none and answers no request."""
    line = complete_answer(line)
    is_object = line[:MARGIN_BYTES].lstrip().startswith(b"{")
    # The beginning of anything else is enough for the error; its end may be far.
    text = repaired(line if is_object else line[:MARGIN_BYTES]).decode("utf-8", "replace")
    whole = text.encode()
    if is_object and len(line) > SMALL_BYTES:
        return _large_message(whole, "")
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError as error:
        if not is_object:
            raise
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        try:
            return _large_message(whole, printable(first, 200))
        except ValueError:
            raise error from None


def complete_answer(line: bytes) -> bytes:
    """Returns a message without a byte order mark, and completes an answer.

    An answer may lack the version of the protocol, or an object as its result.
    """
    line = line.removeprefix(codecs.BOM_UTF8)
    if len(line) > SMALL_BYTES:
        return line
    try:
        answer = msgspec.json.decode(line, type=_Envelope)
    except (msgspec.MsgspecError, RecursionError):
        return line
    error, result = bytes(answer.error), bytes(answer.result)
    key, value = ("result", result) if error == b"null" else ("error", error)
    if answer.method is not None or answer.id is None or not value:
        return line
    has_null = key == "result" and b'"error"' in line
    fit = _as_object(value) if key == "result" else value
    if answer.jsonrpc == "2.0" and fit == value and not has_null:
        return line
    return msgspec.json.encode({"jsonrpc": "2.0", "id": answer.id, key: msgspec.Raw(fit)})


def _as_object(result: bytes) -> bytes:
    """Returns a result, or an object in the place of a list, a text or nothing."""
    if result in _NOTHING:
        return b"{}"
    return b'{"content":' + result + b"}" if result[:1] in b'"[' else result


def repaired(line: bytes) -> bytes:
    """Returns the line with U+FFFD in the place of each half of a surrogate pair."""
    if len(line) > _REPAIRABLE_BYTES:
        return line
    return replace_half_characters(line)


def _large_message(line: bytes, problem: str) -> JSONRPCMessage:
    """Reads the envelope; ``problem`` is why the SDK could not read the whole, if it tried."""
    try:
        envelope = msgspec.json.decode(line, type=_Envelope)
    except (msgspec.MsgspecError, RecursionError) as error:
        return unreadable_answer(line, problem or str(error))
    result = bytes(envelope.result)
    if envelope.method is None and envelope.id is not None and result:
        return _response(envelope.id, UnparsedResult(result, problem))
    if problem or not is_moderate(line):
        return unreadable_answer(line, problem or "it is too large")
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


def unreadable_answer(line: bytes, problem: str) -> JSONRPCMessage:
    """Returns an answer that fails the request which a message answers.

    ``line`` is the message, or its beginning and its end. Raises `ValueError` if it
    answers no request.
    """
    first = line[:MARGIN_BYTES]
    found = _ID_FIRST.search(first) or _ID_LAST.search(line[-MARGIN_BYTES:])
    if found is None or b'"method"' in _CONTENT.split(first, maxsplit=1)[0]:
        raise ValueError(problem)
    return failed_answer(int(found[1]), problem)


def failed_answer(request: RequestId | None, problem: str) -> JSONRPCMessage:
    """Returns an answer that fails a request."""
    return _response(request or 0, UnparsedResult(b"", problem))


def _response(request: RequestId, result: UnparsedResult) -> JSONRPCResponse:
    return JSONRPCResponse.model_construct(jsonrpc="2.0", id=request, result=cast("Any", result))


class BoundedBuffer:
    """The bytes of one message. Past the limit, only its beginning and its end."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Appends; drops the middle of a message past the limit."""
        self.size += len(data)
        self.data += data
        if self.is_full:
            del self.data[MARGIN_BYTES : max(MARGIN_BYTES, len(self.data) - MARGIN_BYTES)]

    @property
    def is_full(self) -> bool:
        """Whether there was more than the limit."""
        return self.size > MESSAGE_BYTES

    @property
    def problem(self) -> str:
        """The error of a message past the limit."""
        most = MESSAGE_BYTES // 2**20
        return f"it has {self.size / 2**20:.1f} MiB; at most {most} MiB are read"

    async def message(self) -> JSONRPCMessage:
        """Returns the message; see `read_message` and `unreadable_answer`."""
        if self.is_full:
            return unreadable_answer(bytes(self.data), self.problem)
        return await in_thread_if_large(read_message, bytes(self.data))
