"""Shows the screens about the whole: savings, graph, skills, access and health."""

from typing import Any, Literal

import anyio.to_thread
import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore, granted_text
from toolscript.config.settings import Settings
from toolscript.errors import InputError, ToolscriptError
from toolscript.graph.base import Edge, Stats
from toolscript.surfaces.http.answers import DatabaseAnswer, SkillFile, SkillsAnswer, server_answer
from toolscript.surfaces.http.cost_routes import cost
from toolscript.surfaces.http.graph_routes import graph as graph_answer
from toolscript.surfaces.http.routes import list_skills, read_skill
from toolscript.surfaces.mcp.mcp_routes import McpRoutes
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.server.checks import (
    Finding,
    database_finding,
    file_findings,
    search_findings,
    server_finding,
)
from toolscript.surfaces.web.screens import Screens, check_owner, field, form_of, given, redirect
from toolscript.types import SearchRequest

SCREENS = Screens()


class GraphScreen(Struct, frozen=True, kw_only=True):
    """The strongest edges."""

    stats: Stats | None
    edges: list[Edge]
    off: str = ""
    """Why nothing is learned."""


class SkillsScreen(Struct, frozen=True, kw_only=True):
    """Every skill, and one of them to read."""

    skills: SkillsAnswer
    file: SkillFile | UnsetType = UNSET


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

    protected: bool
    """Whether callers need a token."""
    tokens: list[TokenRow]
    clients: list[ClientRow]


class DoctorScreen(Struct, frozen=True, kw_only=True):
    """The outcome of each check."""

    findings: list[Finding]


SCREENS.add("GET", "/savings", "savings.html")(cost)


@SCREENS.add("GET", "/graph", "graph.html")
async def graph(app: App, request: Request) -> Any:
    """Which tools are used together."""
    try:
        answer = await graph_answer(app, request)
    except InputError as problem:
        return GraphScreen(stats=None, edges=[], off=str(problem))
    return GraphScreen(stats=answer.stats, edges=answer.edges)


@SCREENS.add("GET", "/skills", "skills.html")
async def skills(app: App, request: Request) -> Any:
    """Every skill; with ``?name=`` one of them is shown."""
    file = await read_skill(app, request) if given(request, "name") else UNSET
    return SkillsScreen(skills=await list_skills(app, request), file=file)


@SCREENS.add("GET", "/access", "access.html")
async def access(_: App, request: Request) -> Any:
    """The tokens, and the clients that are connected."""
    check_owner(request)
    tokens: TokenStore = request.app.state.tokens
    mcp: McpRoutes = request.app.state.mcp
    known = await anyio.to_thread.run_sync(tokens.all)
    return AccessScreen(
        protected=tokens.protected,
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


@SCREENS.add("GET", "/doctor", "doctor.html")
async def doctor(app: App, request: Request) -> Any:
    """Check everything that a running gateway can check."""
    check_owner(request)
    grant = grant_of(request)
    settings: Settings = request.app.state.settings
    findings = await anyio.to_thread.run_sync(lambda: [*file_findings(settings)])
    if app.database is not None:
        state = msgspec.convert(app.database, DatabaseAnswer, from_attributes=True)
        findings.append(database_finding(msgspec.to_builtins(state)))
    for status in app.catalogue(grant).servers():
        findings.append(server_finding(msgspec.to_builtins(server_answer(status, None))))
    try:
        found = await app.search(SearchRequest(text="is everything well", grant=grant))
        findings += search_findings(app.stats(grant), "; ".join(found.result.degraded))
    except ToolscriptError as problem:
        findings.append(Finding("search", ok=False, found=str(problem)))
    return DoctorScreen(findings=findings)
