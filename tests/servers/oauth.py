"""An MCP server made with the real SDK that asks for OAuth: ``oauth.py [PORT]``.

It is its own authorization server, over the SDK's routes, and grants whatever is
asked for without a page in between. Environment variables change it: LIFE_S is
how long an access token is valid (3600), ROTATING names a file; while it exists
no token that was issued is taken any more, though it can be refreshed. While the
file CLOSED exists, nothing can be refreshed. CLIENT, ``id secret port``, is the
only client there is; none can register then. REFRESHES names a file that gets a line
at each refresh: "new", "closed", or "used" for a refresh token that was used before,
which ends the login: no token is taken any more. ARRIVALS names one that gets a line when a
request for a refresh comes. A refresh takes SLOW_S seconds (0).
While there is NO_STREAM, a GET is answered with 405, as by servers that send nothing unasked.
HEARD names a file that gets each request to another address than the MCP server's. While the file
ELSEWHERE exists, it has the issuer that the MCP server names, or nothing if it names none. ISS is
what users bring back as ``iss``, and DENIES the reason why no user gets a code. ODD names a form of
answers that is not the specification's, see `Odd`.
"""

import json
import os
import secrets
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIFE_S = int(os.environ.get("LIFE_S", "3600"))
CLIENT = os.environ.get("CLIENT", "").split()


def exists(variable: str) -> bool:
    return variable in os.environ and Path(os.environ[variable]).exists()


def note(line: str, variable: str = "REFRESHES") -> None:
    if variable in os.environ:
        with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Everything in memory."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        if CLIENT:
            identifier, secret, port = CLIENT
            self.clients[identifier] = OAuthClientInformationFull(
                client_id=identifier,
                client_secret=secret,
                scope="tools",
                redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")],
                token_endpoint_auth_method="client_secret_post",  # noqa: S106 - the name of a method
            )
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.used: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        iss = os.environ.get("ISS")
        if reason := os.environ.get("DENIES"):
            denied = {"error": "access_denied", "error_description": reason}
            return construct_redirect_uri(
                str(params.redirect_uri), **denied, state=params.state, iss=iss
            )
        code = secrets.token_urlsafe(20)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(
            str(params.redirect_uri), code=code, state=params.state, iss=iss
        )

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        if refresh_token in self.used:
            note("used")
            self.refresh.clear()
            self.access.clear()
        if exists("CLOSED"):
            note("closed")
        return None if exists("CLOSED") else self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        note("refresh", "ARRIVALS")
        await anyio.sleep(float(os.environ.get("SLOW_S", "0")))
        if self.refresh.pop(refresh_token.token, None) is None:
            note("used")
            raise TokenError("invalid_grant")
        self.used[refresh_token.token] = refresh_token
        note("new")
        return self.issue(client.client_id, scopes)

    def withdrawn(self) -> bool:
        """Whether all tokens were withdrawn just now."""
        if not exists("ROTATING"):
            return False
        self.access.clear()
        Path(os.environ["ROTATING"]).unlink()
        return True

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = None if self.withdrawn() else self.access.get(token)
        return found if found and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    def issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = (f"{kind}-{secrets.token_urlsafe(20)}" for kind in ("acc", "ref"))
        expires = int(time.time()) + LIFE_S
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=expires
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFE_S)


class NoStream:
    """Refuses to send messages unasked, before it asks who wants them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (scope["method"], scope["path"]) == ("GET", "/mcp"):
            await Response(status_code=405)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class Hearing:
    """Notes requests, and names another issuer on demand."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        self.app = app
        self.base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] == "/mcp":
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        header = request.headers.get("authorization", "")
        note(f"{request.url.path}?{request.url.query} {header} {body.decode()}", "HEARD")

        async def repeat() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        if "protected-resource" in scope["path"] and exists("ELSEWHERE"):
            await self.metadata()(scope, repeat, send)
        else:
            await self.app(scope, repeat, send)

    def metadata(self) -> Response:
        """The metadata of the MCP server, with another issuer; none if there is no other one."""
        issuer = Path(os.environ["ELSEWHERE"]).read_text("utf-8")
        named = {"resource": f"{self.base}/mcp", "authorization_servers": [issuer]}
        return JSONResponse(named, 200 if issuer else 404)


class Odd:
    """Answers as some providers do: one way for each value of ODD.

    ``slash``: the issuer has no slash at its end. ``form``: tokens are a form unless JSON is asked
    for. ``always-form``: they are one in any case. ``fields``: a list of scopes, a life in words,
    and a type of token of its own. ``error``: a refusal with status 200. ``empty``: no token.
    ``forbidden``: 403 instead of 401.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.kind = os.environ["ODD"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        path = scope.get("path", "")
        if scope["type"] != "http" or path == "/mcp":
            await self.app(scope, receive, self.forbidding(send))
            return
        await self.app(scope, receive, keep)
        body = b"".join(message.get("body", b"") for message in messages)
        answer = self.answer(path, body, Request(scope).headers.get("accept", ""))
        if answer is not None:
            messages[1:] = [{"type": "http.response.body", "body": answer.encode()}]
            headers = [(k, v) for k, v in messages[0]["headers"] if k != b"content-length"]
            messages[0]["headers"] = [*headers, (b"content-length", str(len(answer)).encode())]
        for message in messages:
            await send(message)

    def forbidding(self, send: Send) -> Send:
        async def change(message: Message) -> None:
            if self.kind == "forbidden" and message.get("status") == 401:
                message["status"] = 403
            await send(message)

        return change

    def answer(self, path: str, body: bytes, accept: str) -> str | None:
        """The answer that is given instead; None if it stays."""
        if "oauth-authorization-server" in path and self.kind == "slash":
            value = json.loads(body)
            return json.dumps({**value, "issuer": value["issuer"].rstrip("/")})
        if path != "/token":
            return None
        token = json.loads(body)
        changes = {"scope": ["read", "write"], "expires_in": "3600.0", "token_type": "user"}
        as_form = self.kind == "always-form" or (self.kind == "form" and "json" not in accept)
        answers = {
            "fields": json.dumps({**token, **changes}),
            "error": '{"ok": false, "error": "invalid_code"}',
            "empty": '{"ok": true}',
        }
        return urlencode(token) if as_form else answers.get(self.kind)


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=not CLIENT),
        )
        server: MCPServer[Any] = MCPServer(
            "guarded", auth_server_provider=Provider(), auth=settings
        )

        @server.tool()
        def read_file(path: str) -> str:  # pyright: ignore[reportUnusedFunction] - the server has it
            """Read the contents of a file from disk."""
            return path

        print(f"{base}/mcp", flush=True)  # noqa: T201 - read by the test
        app = server.streamable_http_app()
        if "NO_STREAM" in os.environ:
            app.add_middleware(NoStream)
        if "HEARD" in os.environ:
            app.add_middleware(Hearing, base=base)
        if "ODD" in os.environ:
            app.add_middleware(Odd)
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


main()
