"""Explains the failure of a server in words for its user."""

from http import HTTPStatus

import httpx2
import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

_STATUS_ONLY = {"Server returned an error response", "Session terminated", "Not Found"}
"""The messages that the SDK gives to responses that had only a status."""
CLOSED = "closed the connection"
CUT = f"{CLOSED} before it answered; it may have executed the request"
_ENDED = {
    "Connection closed",
    "SSE stream ended without a response",
    "SSE stream ended and reconnection attempts were exhausted",
}
"""The messages that the SDK gives to requests whose answer did not come any more."""


class ClosedError(Exception):
    """A server closed its connection."""


def is_closed(error: BaseException) -> bool:
    """Whether the SDK says that the connection ended; servers use its code for anything."""
    return (
        isinstance(error, MCPError)
        and error.code == mcp_types.CONNECTION_CLOSED
        and error.message in _ENDED
    )


def is_status_only(error: BaseException) -> bool:
    """Whether the status of the response says more than the error does."""
    return isinstance(error, MCPError) and error.message in _STATUS_ONLY


def answered(status: int, may_log_in: str = "") -> str:
    """Returns a status in words; with advice for the server that the user may log in to."""
    hint = "; check its headers" if status in {401, 403} else ""
    if may_log_in and status == HTTPStatus.UNAUTHORIZED:
        hint = f"; log in with toolscript auth {may_log_in}, or check its headers"
    return f"answered HTTP {status:d}{hint}"


def message(error: BaseException) -> str:  # noqa: PLR0911 - a table
    """Returns the error in words; the text is the server's and may hold secrets."""
    match error:
        case httpx2.HTTPStatusError():
            return answered(error.response.status_code)
        case httpx2.InvalidURL():  # which says what it could not read: half a password
            return "named an address that cannot be read"
        case httpx2.ConnectError():
            return f"cannot be reached: {error}"
        case httpx2.TimeoutException():
            return "did not answer in time"
        case ValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            return f"sent an invalid answer ({where}: {first['msg']})"
        case MCPError():
            return f"answered with an error: {error.message}"
        case _:
            return str(error)
