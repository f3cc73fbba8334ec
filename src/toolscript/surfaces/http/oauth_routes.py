"""The routes of OAuth that clients call themselves: metadata, registration and tokens."""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from toolscript.config.setting_groups import CLIENT_DOCUMENT
from toolscript.errors import InputError
from toolscript.surfaces.server.authorization_server import (
    METADATA,
    REGISTER,
    RESOURCE,
    TOKEN,
    UNAVAILABLE,
    OAuthError,
    OAuthServer,
)
from toolscript.surfaces.server.error_answers import json_response
from toolscript.surfaces.server.oauth_client_metadata import RedirectError
from toolscript.text.display import printable

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"
_MAX_FIELDS = 50
_CREATED, _MISSING, _CLIENT_CLOSED = 201, 404, 499
_STATUS = {"invalid_client": 401, UNAVAILABLE: 503}
"""The status of an error of RFC 6749; 400 for the others."""


def client_route(url: str) -> Route:
    """Returns the route of the document at this address, by which servers know us (see `Login`)."""
    document = {
        "client_id": url,
        "client_name": "toolscript",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }

    async def describe(_: Request) -> Response:
        return json_response(document)

    return Route(CLIENT_DOCUMENT, describe)


def oauth_routes(oauth: OAuthServer) -> list[Route]:
    """Returns the routes of an authorization server."""

    async def describe(_: Request) -> Response:
        return json_response(oauth.describe())

    async def describe_resource(request: Request) -> Response:
        path = request.path_params.get("path", "")
        described = oauth.describe_resource(f"/{path}" if path else "")
        if described is None:
            return json_response({"error": "there is no MCP at this path"}, _MISSING)
        return json_response(described)

    async def register(request: Request) -> Response:
        _check_kind(request, _JSON, "invalid_client_metadata")
        try:
            return json_response(oauth.register(await request.body()), _CREATED)
        except RedirectError as problem:
            raise OAuthError("invalid_redirect_uri", str(problem)) from None
        except InputError as problem:
            raise OAuthError("invalid_client_metadata", str(problem)) from None

    async def exchange(request: Request) -> Response:
        _check_kind(request, _FORM, "invalid_request")
        try:
            text = (await request.body()).decode()
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        except ValueError:
            raise OAuthError("invalid_request", "the form cannot be read") from None
        return json_response(await oauth.exchange(pairs))

    return [
        Route(METADATA, describe),
        Route(RESOURCE, describe_resource),
        Route(f"{RESOURCE}/{{path:path}}", describe_resource),
        Route(REGISTER, _make_endpoint(register), methods=["POST"]),
        Route(TOKEN, _make_endpoint(exchange), methods=["POST"]),
    ]


def _make_endpoint(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            answer = await handler(request)
        except OAuthError as problem:
            said = {"error": problem.code, "error_description": str(problem)}
            answer = json_response(said, _STATUS.get(problem.code, 400))
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)
        answer.headers["cache-control"] = "no-store"
        return answer

    return endpoint


def _check_kind(request: Request, kind: str, code: str) -> None:
    """Raises `OAuthError` for a body of another kind, as a page may send anywhere."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if sent != kind:
        raise OAuthError(code, f"the content-type is {printable(sent, 60)!r}; send {kind}")
