"""Shows the tokens, which can be revoked, and the clients that are connected."""

from typing import Any, Literal

import anyio.to_thread
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore, granted_text
from toolscript.surfaces.mcp.mcp_routes import McpRoutes
from toolscript.surfaces.server.audit_log import ANYONE
from toolscript.surfaces.web.screens import Screens, check_owner, field, form_of, redirect

SCREENS = Screens()


class TokenRow(Struct, frozen=True, kw_only=True):
    """A token."""

    id: str
    name: str
    grants: str
    created: str
    expires: str


class ClientRow(Struct, frozen=True, kw_only=True):
    """A session of an MCP client."""

    holder: str
    transport: Literal["stdio", "HTTP"]
    """The first for a client that starts ``toolscript mcp``."""
    exposure: str
    requests: int


class AccessScreen(Struct, frozen=True, kw_only=True):
    """Who may use the gateway, and who does."""

    is_open: bool
    """Whether callers need no token."""
    tokens: list[TokenRow]
    clients: list[ClientRow]


@SCREENS.add("GET", "/access", "access.html")
async def access(_: App, request: Request) -> Any:
    """The tokens, and the clients that are connected."""
    check_owner(request)
    tokens: TokenStore = request.app.state.tokens
    mcp: McpRoutes = request.app.state.mcp
    known = await anyio.to_thread.run_sync(tokens.all)
    return AccessScreen(
        is_open=request.app.state.is_admitted(ANYONE),
        tokens=[
            TokenRow(
                id=token.id,
                name=token.name,
                grants=granted_text(token.grant),
                created=token.created,
                expires=token.expires,
            )
            for token in known
        ],
        clients=[
            ClientRow(
                holder=each.holder,
                transport="HTTP" if each.close is None else "stdio",
                exposure=each.exposure,
                requests=each.requests,
            )
            for each in reversed(mcp.open_sessions)
        ],
    )


@SCREENS.add("POST", "/access")
async def revoke(_: App, request: Request) -> Any:
    """Revoke a token."""
    check_owner(request)
    tokens: TokenStore = request.app.state.tokens
    identifier = field(await form_of(request), "revoke")
    await anyio.to_thread.run_sync(tokens.revoke, identifier)
    return redirect("/access")
