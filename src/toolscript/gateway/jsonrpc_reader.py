"""Reads JSON-RPC messages from servers, and keeps the results of large ones as raw JSON.

The SDK's own reader takes half a second for a megabyte of small values, and the event
loop waits. What is small is left to it. Of anything larger the envelope is read, and a
result stays the text that it came as.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec
from anyio import to_thread
from mcp_types import JSONRPCMessage, JSONRPCResponse, RequestId, jsonrpc_message_adapter
from pydantic import ValidationError

from toolscript.gateway.raw_results import is_moderate
from toolscript.text import printable

_T = TypeVar("_T")
SMALL_BYTES = 64 * 1024
"""Up to here a message is read by the SDK."""
MARGIN_BYTES = 1024
"""At its beginning and at its end, a message says which request it answers."""

_MENDED_BYTES = _ASIDE_BYTES = 1024 * 1024
_HALVES = re.compile(
    rb"\\\\|(\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2}))"
)
"""The escape of half a character, with which a text ends that was cut in the middle of one."""
_ID_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\b')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class Unparsed(msgspec.Struct, frozen=True):
    """A result that is the text it came as."""

    text: bytes
    """Empty where that could not be told from the rest."""
    problem: str = ""
    """Why it could not be read; empty where it is only large."""


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw()


_CONTENT = re.compile(rb'"result"|"error"')
_ENVELOPE = msgspec.json.Decoder(_Envelope)


def read(line: bytes) -> JSONRPCMessage:
    """Return a message; raises `ValueError` for what is none, and answers no request."""
    is_object = line[:MARGIN_BYTES].lstrip().startswith(b"{")
    if is_object and len(line) > SMALL_BYTES:
        return _unparsed(_valid(line), "")
    # What begins as no message does is not read to its end, which may be far.
    text = (line if is_object else line[:MARGIN_BYTES]).decode("utf-8", "replace")
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError as error:
        if not is_object:
            raise
        whole = text.encode()
        if (other := mended(whole)) != whole:
            return read(other)
        try:
            return _unparsed(whole, _problem(error))
        except ValueError:
            raise error from None


def mended(line: bytes) -> bytes:
    """Return the line with no half of a character in it."""
    if len(line) > _MENDED_BYTES:
        return line
    return _HALVES.sub(lambda found: rb"\ufffd" if found[1] else found[0], line)


def _problem(error: ValueError) -> str:
    said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return printable(said, 200)


def _unparsed(line: bytes, problem: str) -> JSONRPCMessage:
    """Read the envelope; ``problem`` is why the SDK could not read the whole."""
    try:
        envelope = _ENVELOPE.decode(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        if not problem and (other := mended(line)) != line:
            return read(other)
        return unreadable(line, problem or str(error))
    result = bytes(envelope.result)
    if envelope.method is None and envelope.id is not None and result:
        return _response(envelope.id, Unparsed(result, problem))
    if problem or not is_moderate(line):
        return unreadable(line, problem or "it is too large")
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


def unreadable(line: bytes, problem: str) -> JSONRPCMessage:
    """Return an answer to the request that a message answers; raises `ValueError` without one.

    Of a message that was not kept as a whole, ``line`` is its beginning and its end.
    """
    first = line[:MARGIN_BYTES]
    found = _ID_FIRST.search(first) or _ID_LAST.search(line[-MARGIN_BYTES:])
    if found is None or b'"method"' in _CONTENT.split(first, maxsplit=1)[0]:
        raise ValueError(problem)
    return answered(int(found[1]), problem)


def answered(request: RequestId | None, problem: str) -> JSONRPCMessage:
    """Return what stands for an answer that is of no use."""
    return _response(request or 0, Unparsed(b"", problem))


def _response(request: RequestId, result: Unparsed) -> JSONRPCResponse:
    return JSONRPCResponse.model_construct(jsonrpc="2.0", id=request, result=cast("Any", result))


async def aside(work: Callable[[bytes], _T], data: bytes) -> _T:
    """Do the work in a thread where there is much of it: others get their turn in between."""
    return work(data) if len(data) <= _ASIDE_BYTES else await to_thread.run_sync(work, data)


class BoundedBuffer:
    """The bytes of one message. Past the limit, only its beginning and its end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append; what is in the middle of too much is forgotten."""
        self.size += len(data)
        self._data += data
        if self.is_full:
            del self._data[MARGIN_BYTES : max(MARGIN_BYTES, len(self._data) - MARGIN_BYTES)]

    @property
    def is_full(self) -> bool:
        """Whether there was more than may be."""
        return self.size > self._limit

    @property
    def problem(self) -> str:
        """What is said of too much."""
        mib = 2**20
        told = f"it has {self.size / mib:.1f} MiB; at most {self._limit / mib:g} MiB are read"
        return f"{told} (TOOLSCRIPT_MESSAGE_LIMIT)"

    @property
    def data(self) -> bytes:
        """The bytes, or the beginning and the end."""
        return bytes(self._data)

    @property
    def end(self) -> bytes:
        """The last few bytes."""
        return bytes(self._data[-3:])

    async def message(self) -> JSONRPCMessage:
        """Return what `read` makes of it, or `unreadable` of too much."""
        return unreadable(self.data, self.problem) if self.is_full else await aside(read, self.data)


def _valid(line: bytes) -> bytes:
    """The line as valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line
