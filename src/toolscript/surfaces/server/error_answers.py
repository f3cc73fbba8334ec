"""Errors as HTTP answers: a JSON object with a message for people and a type for programs."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from toolscript.errors import (
    AccessError,
    DatabaseUnavailableError,
    TokenFileError,
    ToolscriptError,
)
from toolscript.surfaces.server.error_codes import codes_of

RETRY_AFTER = {"retry-after": "5"}


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no other answer."""

    error: Annotated[str, Meta(description="What is wrong, and what to do.")]
    type: Annotated[
        str,
        Meta(description="The error's name.", examples=["NotReadyError", "UnknownNameError"]),
    ] = "HTTPException"


def error_response(problem: ToolscriptError) -> Response:
    """Returns the answer to a request that ends in one of our errors."""
    status = codes_of(type(problem)).http_status
    headers = None
    if isinstance(problem, AccessError):
        headers = {"www-authenticate": "Bearer"}
    elif isinstance(problem, DatabaseUnavailableError | TokenFileError):
        headers = RETRY_AFTER
    return refusal(status, str(problem), type(problem).__name__, headers)


def refusal(
    status: int,
    message: str,
    kind: str = "HTTPException",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Returns an error answer with this status; ``kind`` is its ``type``."""
    return json_response(ErrorAnswer(error=message, type=kind), status, headers)


def json_response(
    answer: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns an answer as JSON."""
    body = msgspec.json.encode(answer)
    return Response(body, status, headers, media_type="application/json")
