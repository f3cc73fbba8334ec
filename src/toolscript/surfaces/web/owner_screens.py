"""Shows the owner the tokens, the clients that are connected, and what doctor finds."""

from typing import Any, Literal

import anyio.to_thread
import msgspec
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore, granted_text
from toolscript.config.settings import Settings
from toolscript.errors import ToolscriptError
from toolscript.surfaces.http.answers import server_answer
from toolscript.surfaces.mcp.mcp_routes import McpRoutes
from toolscript.surfaces.server.audit_log import ANYONE
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.server.doctor_checks import (
    Finding,
    activity_finding,
    database_findings,
    file_findings,
    search_findings,
    server_finding,
)
from toolscript.surfaces.web.screens import Screens, check_owner, field, form_of, redirect
from toolscript.types import SearchRequest

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


class DoctorScreen(Struct, frozen=True, kw_only=True):
    """The outcome of each check."""

    findings: list[Finding]


@SCREENS.add("GET", "/doctor", "doctor.html")
async def doctor(app: App, request: Request) -> Any:
    """Check everything that a running gateway can check."""
    check_owner(request)
    grant = grant_of(request)
    settings: Settings = request.app.state.settings
    findings = await anyio.to_thread.run_sync(lambda: [*file_findings(settings)])
    findings.append(activity_finding({"dropped": app.activity.dropped}))
    if app.database is not None:
        findings += database_findings(msgspec.to_builtins(app.database))
    for status in app.catalogue(grant).servers():
        findings.append(server_finding(msgspec.to_builtins(server_answer(status, None))))
    try:
        found = await app.search(SearchRequest(text="is everything well", grant=grant))
        findings += search_findings(app.stats(grant), "; ".join(found.result.degraded))
    except ToolscriptError as problem:
        findings.append(Finding("search", ok=False, found=str(problem)))
    return DoctorScreen(findings=findings)
