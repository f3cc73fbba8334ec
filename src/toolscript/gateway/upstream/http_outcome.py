"""Records the outcome of a request over HTTP, which the errors of the SDK do not tell."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx2
import mcp_types
from mcp.shared.exceptions import MCPError

from toolscript.gateway.diagnosis import CUT, answered, is_closed, message

FORGOTTEN = {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.GONE}
"""Statuses with which servers refuse a session that they do not know, before anything is done."""
_SESSION_ID = "mcp-session-id"


@dataclass(slots=True)
class HttpOutcome:
    """The outcome of one request; all fields stay empty for a server that is not remote."""

    status: int = 0
    """The status of the response if that was an error."""
    has_session: bool = False
    """Whether the request named a session."""
    unsent: httpx2.TransportError | None = None
    """Why the server was not reached, so that it has surely not seen the request."""

    def may_end_session(self, error: MCPError) -> bool:
        """Whether the error that the SDK raised may mean that the session is over."""
        refused = self.status in FORGOTTEN or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        ended = is_closed(error) or (refused and error.code != mcp_types.METHOD_NOT_FOUND)
        return self.unsent is not None or (self.has_session and ended)

    def __str__(self) -> str:
        if self.unsent:
            return message(self.unsent)
        return answered(self.status) if self.status else CUT


_recorded: ContextVar[HttpOutcome | None] = ContextVar("_recorded", default=None)


@contextmanager
def record_in(outcome: HttpOutcome) -> Generator[None]:
    """Records the outcome of the request that is sent within the block.

    The SDK sends it in a copy of the context in which it was asked to.
    """
    token = _recorded.set(outcome)
    try:
        yield
    finally:
        _recorded.reset(token)


class RecordingClient(httpx2.AsyncClient):
    """A client that notes the outcome of each request, if it is to be recorded."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """See `httpx2.AsyncClient.send`.

        Answers in the place of a server that was not reached: the SDK would end the connection,
        and with it the requests that are still being answered.
        """
        outcome = _recorded.get() if request.method == "POST" else None
        if outcome is None:
            return await super().send(request, **options)
        outcome.has_session = _SESSION_ID in request.headers
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            outcome.unsent = error
            return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, request=request)
        outcome.status = response.status_code if response.is_error else 0
        return response
