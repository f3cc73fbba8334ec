"""Limits connections: their number, the size of heads, pipelining, and slow clients.

uvicorn has none of these limits if httptools parses the requests. They apply before any token
is checked.
"""

import resource
from asyncio import BaseTransport, TimerHandle, Transport
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from toolscript.surfaces.server.error_answers import refusal

MAX_CONNECTIONS = 1_000
MAX_HEAD_BYTES = 64 * 1024
"""Limit of request line and headers, of trailers, and of the framing of a chunked body."""
MAX_HEADERS = 128
MAX_PIPELINED = 4
"""Requests that a client may send before the first of them is answered."""
_SPARE = 32
"""Connections beyond the limit that uvicorn answers with 503; more are cut."""
_MAX_DESCRIPTORS = 4096
"""The soft limit is raised to this: more than 1,000 connections and 500 servers need."""
_TOO_LARGE, _TOO_LATE, _BAD = 431, 408, 400


@dataclass(eq=False, slots=True)
class Connections:
    """Limits the number of connections; the longest idle one makes room for a new one."""

    limit: int = MAX_CONNECTIONS
    head_s: float = 10.0
    """How long request line and headers may take, from the first byte or from the connection."""
    body_s: float = 60.0
    """How long the whole body may take."""
    stall_s: float = 30.0
    """How long a client may take nothing of its answer."""
    waiting: dict["LimitedProtocol", None] = field(default_factory=dict["LimitedProtocol", None])
    """Connections with no request under way, the longest idle one first."""

    def make_room(self, number: int) -> bool:
        """Whether there is room for the ``number``th; cuts the longest idle one for it."""
        if number <= self.limit:
            return True
        oldest = next(iter(self.waiting), None)
        if oldest is not None:
            del self.waiting[oldest]
            oldest.cut()
        return oldest is not None or number <= self.limit + _SPARE


class _LimitError(Exception):
    """Raised into the parser, to stop it."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. A client that keeps to them notices nothing."""

    def __init__(self, room: Connections, **more: Any) -> None:
        super().__init__(**more)
        self._room = room
        self._stage: Literal["between", "head", "body"] = "between"
        self._unframed = 0
        """Bytes received since a head, a piece of a body, or a body ended."""
        self._timer: TimerHandle | None = None
        self._problem = _BAD, ""

    def connection_made(self, transport: BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(cast("Transport", transport))
        if not self._room.make_room(len(self.connections)):
            self.cut()
            return
        self._room.waiting[self] = None
        self._start_timer()

    def cut(self) -> None:
        """Close the connection at once."""
        self.connections.discard(self)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._room.waiting.pop(self, None)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._unframed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._unframed > MAX_HEAD_BYTES:
            self._refuse(_TOO_LARGE, f"more than {MAX_HEAD_BYTES} bytes of headers")
        elif self._timer is None and (self._stage != "between" or not self._busy):
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """See `HttpToolsProtocol`: the parser may have failed because of a limit."""
        status, message = self._problem
        self._refuse(status, message or msg)

    def on_message_begin(self) -> None:
        """See `HttpToolsProtocol`."""
        self._stage = "head"
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `HttpToolsProtocol`."""
        if len(self.headers) >= MAX_HEADERS:
            self._stop(f"more than {MAX_HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        if self._unframed > MAX_HEAD_BYTES:  # a piece of a body may have come along
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > MAX_HEAD_BYTES:
                self._stop(f"more than {MAX_HEAD_BYTES} bytes of headers")
        if len(self.pipeline) >= MAX_PIPELINED:
            self._stop(f"more than {MAX_PIPELINED} requests at once")
        self._enter("body")
        self._room.waiting.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See `HttpToolsProtocol`."""
        self._unframed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        self._enter("between")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See `HttpToolsProtocol`."""
        super().on_response_complete()
        if not self._busy and not self.transport.is_closing():
            self._room.waiting[self] = None
        self._check_progress(-1)

    @property
    def _busy(self) -> bool:
        """Whether a request is under way."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        return cycle is not None and not cycle.response_complete

    @property
    def _answers_another(self) -> bool:
        """Whether an earlier request than the one that is read is being answered."""
        return self._busy and self._stage != "body"

    def _enter(self, stage: Literal["between", "body"]) -> None:
        self._stage, self._unframed = stage, 0
        self._stop_timer()

    def _start_timer(self) -> None:
        seconds = self._room.body_s if self._stage == "body" else self._room.head_s
        self._timer = self.loop.call_later(seconds, self._end_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_late(self) -> None:
        """End a request that has not arrived in time, but not the answer to the one before."""
        self._timer = None
        if self._stage == "body" and self._busy and self.cycle.response_started:
            return  # a session of messages both ways, which has been let in
        if not (self.transport.is_closing() or self.pipeline or self._answers_another):
            self._refuse(_TOO_LATE, "the request did not arrive in time")

    def _check_progress(self, before: int) -> None:
        """Cut a client that reads nothing of its answer, which is in memory until then."""
        left = self.transport.get_write_buffer_size()
        if left and left == before:
            self.cut()
        elif left:
            self.loop.call_later(self._room.stall_s, self._check_progress, left)

    def _stop(self, message: str) -> None:
        self._problem = _TOO_LARGE, message
        raise _LimitError(message)

    def _refuse(self, status: int, message: str) -> None:
        if self._answers_another or (self._busy and self.cycle.response_started):
            self.cut()
            return
        body = bytes(refusal(status, message).body)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head % len(body) + body)
        self.transport.close()


def protocol_factory(room: Connections) -> Any:
    """Returns the protocol in the form that ``uvicorn.Config`` takes."""
    return partial(LimitedProtocol, room)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files as far as is useful; return the new limit.

    Programs that the gateway starts inherit it, so it is not raised further.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # a system that allows less than it says
        return soft
    return wanted
