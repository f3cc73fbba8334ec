"""A whole session of MCP in one HTTP request: the messages of the stdio transport, both ways.

Request and response are streams of JSON lines. ``toolscript mcp`` speaks it, so that a client's
messages reach the gateway as they are, whatever the protocol's version.
"""

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from toolscript.surfaces.mcp.request_context import EXPOSURE
from toolscript.surfaces.server.error_answers import refusal
from toolscript.surfaces.server.request_log import RequestStats

if TYPE_CHECKING:
    from toolscript.surfaces.mcp.sdk_server import McpServer

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/x-ndjson"
_LISTENING = "subscriptions/listen"
_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class SessionStream:
    """One client's stream. `answer` serves it until either side ends it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stats: RequestStats) -> None:
        self._request = Request(scope, receive)
        self._raw_send = send
        self._stats = stats
        self._under_way: set[str | int] = set()
        self._session = anyio.CancelScope()

    def end(self) -> None:
        """Ends the session."""
        self._session.cancel()

    async def answer(self, server: "McpServer") -> None:
        """Serve the client with this server."""
        kind = self._request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != MEDIA_TYPE:
            wrong = refusal(400, f"the content-type is {kind[:60]!r}; send {MEDIA_TYPE}")
            await wrong(self._request.scope, self._request.receive, self._raw_send)
            return
        # A stream that has ended gives its connection back, whatever the client still sends.
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"connection", b"close")]
        await self._raw_send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(b"")  # the head goes out before any message
        try:
            with self._session:
                await self._serve(server)
        except* (*_CLOSED, OSError):  # the client has hung up while it was answered
            log.debug("a client's stream has broken off")
        finally:
            self._stats.running -= len(self._under_way)
            server.end_stream(self._request.scope)
        with suppress(OSError):
            await self._raw_send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _serve(self, server: "McpServer") -> None:
        inbound, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outbound = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, inbound, tasks.cancel_scope)
            tasks.start_soon(self._write, outbound)
            with write:
                await server.serve(read, write, self._request.scope[EXPOSURE])
            tasks.cancel_scope.cancel()

    async def _read(self, inbound: Any, scope: anyio.CancelScope) -> None:
        """Passes the client's messages on; ends the session with the client's connection."""
        try:
            async with inbound:
                await self._read_lines(inbound)
        except (ClientDisconnect, *_CLOSED):
            scope.cancel()

    async def _read_lines(self, inbound: Any) -> None:
        rest = bytearray()
        async for piece in self._request.stream():
            head, newline, tail = piece.partition(b"\n")
            rest += head
            while newline:
                if rest.strip():
                    await inbound.send(self._message(bytes(rest)))
                head, newline, tail = tail.partition(b"\n")
                rest[:] = head

    def _message(self, line: bytes) -> SessionMessage | Exception:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError as error:
            return error
        metadata = ServerMessageMetadata(request_context=self._request)
        if isinstance(message, JSONRPCRequest) and message.method != _LISTENING:
            self._count(message.id)
            metadata.on_request_unanswered = partial(self._cancel, message.id)
        return SessionMessage(message, metadata)

    def _count(self, identifier: str | int) -> None:
        """Counts a request of the client as running until it is answered."""
        if identifier not in self._under_way:
            self._under_way.add(identifier)
            self._stats.running += 1

    async def _write(self, outbound: Any) -> None:
        async with outbound:
            async for each in outbound:
                message = each.message
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._send(text.encode() + b"\n")
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._end(message.id)

    async def _cancel(self, identifier: str | int) -> None:
        self._end(identifier)

    def _end(self, identifier: str | int | None) -> None:
        """Counts a request as running no more: it was answered, or cancelled by the client."""
        ended = {each for each in self._under_way if each == identifier}
        self._under_way -= ended
        self._stats.running -= len(ended)

    async def _send(self, body: bytes) -> None:
        await self._raw_send({"type": "http.response.body", "body": body, "more_body": True})
