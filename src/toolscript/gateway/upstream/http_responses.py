"""Limits how much of a server's HTTP responses is read, and keeps large results as raw JSON.

The SDK parses responses itself. It gets a reference in the place of a large result, and
the dispatcher exchanges that for the raw JSON.
"""

import codecs
import re
import secrets
import zlib
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, TypeAlias, cast

import httpx2
import msgspec
from mcp_types import JSONRPCMessage, RequestId

from toolscript.gateway.jsonrpc_reader import (
    SMALL_BYTES,
    BoundedBuffer,
    UnparsedResult,
    complete_answer,
    failed_answer,
    read_message,
    repaired,
    unreadable_answer,
)
from toolscript.gateway.raw_results import in_thread_if_large
from toolscript.gateway.upstream.http_outcome import RecordingClient

_REFERENCE = "toolscript/large"
_MAX_REFERENCES = 512
"""Past so many, the oldest is dropped: its request was given up. The SDK passes messages on one by
one, so as many wait as requests are answered at once."""
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BEFORE_DATA = re.compile(rb"\A.*?^data: ?", re.DOTALL | re.MULTILINE)
_ENCODINGS = {"gzip", "x-gzip", "deflate"}

_Chunks: TypeAlias = AsyncIterable[bytes]


class _Request(msgspec.Struct):
    id: int | str | None = None


class BoundedResponses:
    """The responses to one connection's `client`, and the large results among them."""

    def __init__(self) -> None:
        self._results: dict[str, UnparsedResult] = {}

    def client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Returns a client that reads no message past the limit."""
        # Gigabytes can be compressed to a few kilobytes.
        headers = {"accept-encoding": "identity", **(headers or {})}
        hooks: dict[str, list[Any]] = {"response": [self._bound]}
        return RecordingClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks)

    async def _bound(self, response: httpx2.Response) -> None:
        """Replaces the stream of a response by a bounded one."""
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        chunks = cast("httpx2.AsyncByteStream", response.stream)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity", *_ENCODINGS}:
            raise httpx2.DecodingError(f"answers in {encoding[:20]}, though asked not to")
        plain = _decompress(chunks) if encoding in _ENCODINGS else chunks
        rewrite = self._events if content_type == "text/event-stream" else self._body
        response.stream = _Stream(chunks, rewrite(plain, _request_id(response.request)))

    def restore(self, result: dict[str, Any]) -> Any:
        """Returns the result that a reference stands for; any other result as it is."""
        return self._results.pop(str(result.get(_REFERENCE)), result)

    async def _body(self, chunks: _Chunks, request: RequestId | None) -> AsyncGenerator[bytes]:
        buffer = BoundedBuffer()
        async for chunk in chunks:
            buffer.add(chunk)
            if buffer.is_full:
                yield self._referring(failed_answer(request, buffer.problem))
                return
        yield await self._rewritten(bytes(buffer.data))

    async def _events(self, chunks: _Chunks, request: RequestId | None) -> AsyncGenerator[bytes]:
        buffer = BoundedBuffer()
        async for chunk in chunks:
            rest = chunk
            while found := _EVENT_END.search(tail := bytes(buffer.data[-3:]) + rest):
                cut = found.end() - len(tail) + len(rest)
                buffer.add(rest[:cut])
                yield await self._event(buffer, request)
                buffer, rest = BoundedBuffer(), rest[cut:]
            buffer.add(rest)

    async def _event(self, buffer: BoundedBuffer, request: RequestId | None) -> bytes:
        """Returns an event as it came, or with a reference as its data."""
        if buffer.is_full:
            return b"data: " + self._past_limit(buffer, request) + b"\n\n"
        event = bytes(buffer.data).removeprefix(codecs.BOM_UTF8)
        lines = event.splitlines()
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line[:5] == b"data:")
        if buffer.size <= SMALL_BYTES and complete_answer(data) == data:
            return repaired(event)
        others = [line for line in lines if line and not line.startswith(b"data:")]
        data = (await self._rewritten(data)).replace(b"\n", b" ")
        return b"\n".join([*others, b"data: " + data, b"", b""])

    def _past_limit(self, buffer: BoundedBuffer, request: RequestId | None) -> bytes:
        if request is not None:
            return self._referring(failed_answer(request, buffer.problem))
        message = _BEFORE_DATA.sub(b"", bytes(buffer.data))
        try:
            return self._referring(unreadable_answer(message, buffer.problem))
        except ValueError:
            return b""  # a notification, or nothing

    async def _rewritten(self, data: bytes) -> bytes:
        if len(data) <= SMALL_BYTES:
            return repaired(complete_answer(data))
        try:
            return self._referring(await in_thread_if_large(read_message, data))
        except ValueError:
            return data[:SMALL_BYTES]  # which the SDK cannot read, and says so

    def _referring(self, message: JSONRPCMessage) -> bytes:
        """Returns a message as JSON, with a reference in the place of a large result."""
        result: Any = getattr(message, "result", None)
        if not isinstance(result, UnparsedResult):
            return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        token = secrets.token_hex(8)
        self._results[token] = result
        if len(self._results) > _MAX_REFERENCES:
            del self._results[next(iter(self._results))]
        request: Any = getattr(message, "id", None)
        return msgspec.json.encode({"jsonrpc": "2.0", "id": request, "result": {_REFERENCE: token}})


class _Stream(httpx2.AsyncByteStream):
    """A response's body, rewritten on the way."""

    def __init__(self, source: httpx2.AsyncByteStream, rewritten: AsyncGenerator[bytes]) -> None:
        self._source = source
        self._rewritten = rewritten

    def __aiter__(self) -> AsyncGenerator[bytes]:
        return self._rewritten

    async def aclose(self) -> None:
        """See `httpx2.AsyncByteStream`."""
        await self._source.aclose()


async def _decompress(chunks: _Chunks) -> AsyncGenerator[bytes]:
    """Yields the content of a compressed body, at most `SMALL_BYTES` at once."""
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for chunk in chunks:
        rest = chunk
        while rest:
            yield unpacker.decompress(rest, SMALL_BYTES)
            rest = unpacker.unconsumed_tail
    yield unpacker.flush()


def _request_id(request: httpx2.Request) -> RequestId | None:
    """Returns the id of the JSON-RPC message that a request carries, if any."""
    try:
        return msgspec.json.decode(request.content, type=_Request).id
    except (httpx2.RequestNotRead, msgspec.MsgspecError):
        return None
