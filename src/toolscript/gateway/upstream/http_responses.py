"""Limits how much of a server's HTTP responses is read, and keeps large results as raw JSON.

The SDK parses responses itself. It is given a reference in the place of a large result, and
the dispatcher exchanges that for the raw JSON.
"""

import re
import secrets
import zlib
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, TypeAlias, cast

import httpx2
import msgspec
from mcp_types import JSONRPCMessage

from toolscript.gateway.jsonrpc_reader import (
    SMALL_BYTES,
    BoundedBuffer,
    Unparsed,
    answered,
    aside,
    mended,
    read,
    unreadable,
)

_REFERENCE = "toolscript/large"
_MAX_WAITING = 32
"""Answers whose requests were given up are forgotten when there are so many others."""
_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BEFORE_DATA = re.compile(rb"\A.*?^data: ?", re.DOTALL | re.MULTILINE)
_ENCODINGS = {"gzip", "x-gzip", "deflate"}
IDENTITY = {"accept-encoding": "identity"}
"""What every request asks for: a few kilobytes can be packed gigabytes."""

_Chunks: TypeAlias = AsyncIterable[bytes]


class _Request(msgspec.Struct):
    id: int | str | None = None


class Bodies:
    """The large answers of one connection, read by way of its `client`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[str, Unparsed] = {}

    def client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Return a client of which no more is read than may be."""
        hooks: dict[str, list[Any]] = {"response": [self._bound]}
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks)

    async def _bound(self, response: httpx2.Response) -> None:
        """Have no more read of a response than may be."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        chunks = cast("httpx2.AsyncByteStream", response.stream)
        encoding = response.headers.pop("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity", *_ENCODINGS}:
            raise httpx2.DecodingError(f"answers in {encoding[:20]}, though asked not to")
        plain = _unpacked(chunks) if encoding in _ENCODINGS else chunks
        rewrite = self._events if kind == "text/event-stream" else self._body
        response.stream = _Stream(chunks, rewrite(plain, _asked(response.request)))

    def taken(self, result: dict[str, Any]) -> Any:
        """Return what a result stands for: itself, or the text that waits for its reference."""
        return self._waiting.pop(str(result.get(_REFERENCE)), result)

    async def _body(self, chunks: _Chunks, asked: Any) -> AsyncGenerator[bytes]:
        buffer = BoundedBuffer(self._limit)
        async for chunk in chunks:
            buffer.add(chunk)
            if buffer.is_full:
                yield self._referred(answered(asked, buffer.problem))
                return
        yield await self._rewritten(buffer.data)

    async def _events(self, chunks: _Chunks, asked: Any) -> AsyncGenerator[bytes]:
        buffer = BoundedBuffer(self._limit)
        async for chunk in chunks:
            rest = chunk
            while found := _BLANK.search(buffer.end + rest):
                cut = found.end() - len(buffer.end)
                buffer.add(rest[:cut])
                yield await self._event(buffer, asked)
                buffer, rest = BoundedBuffer(self._limit), rest[cut:]
            buffer.add(rest)

    async def _event(self, buffer: BoundedBuffer, asked: Any) -> bytes:
        """An event as it came, or with a reference as its data."""
        if buffer.is_full:
            return b"data: " + self._failed(buffer, asked) + b"\n\n"
        if buffer.size <= SMALL_BYTES:
            return mended(buffer.data)
        lines = buffer.data.splitlines()
        data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))
        others = [line for line in lines if line and not line.startswith(b"data:")]
        return b"\n".join([*others, b"data: " + await self._rewritten(data), b"", b""])

    def _failed(self, buffer: BoundedBuffer, asked: Any) -> bytes:
        if asked is not None:
            return self._referred(answered(asked, buffer.problem))
        try:
            return self._referred(unreadable(_BEFORE_DATA.sub(b"", buffer.data), buffer.problem))
        except ValueError:
            return b""  # a notification, or nothing

    async def _rewritten(self, data: bytes) -> bytes:
        if len(data) <= SMALL_BYTES:
            return mended(data)
        try:
            return self._referred(await aside(read, data))
        except ValueError:
            return data[:SMALL_BYTES]  # which the SDK cannot read, and says so

    def _referred(self, message: JSONRPCMessage) -> bytes:
        """A message as JSON, with a reference for a large result."""
        result: Any = getattr(message, "result", None)
        if not isinstance(result, Unparsed):
            return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        token = secrets.token_hex(8)
        self._waiting[token] = result
        if len(self._waiting) > _MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        identifier: Any = getattr(message, "id", None)
        return msgspec.json.encode(
            {"jsonrpc": "2.0", "id": identifier, "result": {_REFERENCE: token}}
        )


class _Stream(httpx2.AsyncByteStream):
    """A response's body, rewritten on the way."""

    def __init__(self, source: httpx2.AsyncByteStream, rewritten: AsyncGenerator[bytes]) -> None:
        self._source = source
        self._rewritten = rewritten

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        async for piece in self._rewritten:
            yield piece

    async def aclose(self) -> None:
        """See `httpx2.AsyncByteStream`."""
        await self._source.aclose()


async def _unpacked(chunks: _Chunks) -> AsyncGenerator[bytes]:
    """The content of a packed body, piece by piece."""
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
    async for chunk in chunks:
        rest = chunk
        while rest:
            yield unpack.decompress(rest, SMALL_BYTES)
            rest = unpack.unconsumed_tail
    yield unpack.flush()


def _asked(request: httpx2.Request) -> int | str | None:
    """The id of the message that a request brings, if it brings one."""
    try:
        return msgspec.json.decode(request.content, type=_Request).id
    except (httpx2.RequestNotRead, msgspec.MsgspecError):
        return None
