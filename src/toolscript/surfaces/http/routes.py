"""The routes of the HTTP surface, as an ASGI application over one application."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, TypeAlias

import anyio.to_thread
import msgspec
from msgspec import UNSET
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from toolscript import tracing
from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore
from toolscript.config.settings import Option, Settings
from toolscript.errors import DeniedError, TaskDiedError, ToolscriptError
from toolscript.gateway.base import Replication
from toolscript.gateway.raw_results import RawResult
from toolscript.install_command import install_command
from toolscript.surfaces.http import (
    answers,
    approval_routes,
    openapi,
    probe_routes,
    runtime_routes,
    search_routes,
    upstream_routes,
    usage_routes,
)
from toolscript.surfaces.http.client_sessions import LatestSessions, caller_of, session_of
from toolscript.surfaces.http.oauth_routes import client_route, oauth_routes
from toolscript.surfaces.http.openapi import REQUIRED
from toolscript.surfaces.http.replica_routes import replica_routes
from toolscript.surfaces.http.request_input import (
    BodyLimit,
    check_content_type,
    json_object,
    json_value,
    parsed,
    required,
    while_connected,
)
from toolscript.surfaces.mcp.mcp_routes import PATH as MCP_PATH
from toolscript.surfaces.mcp.mcp_routes import McpRoutes
from toolscript.surfaces.mcp.request_context import Exposure, RequestContext, Session
from toolscript.surfaces.mcp.sessionless import SessionlessEndpoint
from toolscript.surfaces.server.audit_log import Refusals, audited
from toolscript.surfaces.server.authentication import (
    ANY_HOST,
    HEALTH,
    PROBES,
    Access,
    Admit,
    OriginGuard,
    access_of,
    grant_of,
)
from toolscript.surfaces.server.authorization_server import OAuthServer
from toolscript.surfaces.server.error_answers import error_response, json_response, refusal
from toolscript.surfaces.server.error_codes import codes_of
from toolscript.surfaces.server.page_sessions import PAGE, PageSessions
from toolscript.surfaces.server.request_log import RequestLogMiddleware, RequestStats
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher
from toolscript.text.display import printable
from toolscript.types import TOOL_CLASSES, Grant, ToolClass
from toolscript.version import __version__

log = logging.getLogger(__name__)
Pages: TypeAlias = Callable[[App], Sequence[BaseRoute]]
"""Gives the routes of the page, which is a surface of its own."""
_MESSAGE = "/message"
"""The one route where a POST may be of any content type: programs may use ``curl -d``."""
_WITHOUT_TASKS = PROBES | {HEALTH}
"""Routes that answer as usual when a background task has died."""
_PIECE_BYTES = 256 * 1024
"""The size of the pieces of a large result: between two the event loop does other work."""
_CLIENT_CLOSED = 499
_CLASS_HEADER = "toolscript-class"
_MOST = Option(
    "class", str, TOOL_CLASSES[-1], "Refuse a tool that may do more.", choices=TOOL_CLASSES
)
_NAME = Option("name", str, REQUIRED, "The skill's name or id.")
_FILE = Option("file", str, "", "A path below the skill's own folder.")
_RESOURCES = Option(
    "resources", bool, default=False, help="Measure the memory and processor time of each."
)
_SERVER = Option("server", str, None, "Only this server's.")
_ONE = Option("tool", str, None, "Only this one.")
_TOOL = Option("tool", str, REQUIRED, "The tool's id, `server__tool`.")
ENDPOINTS = openapi.Endpoints()


def every_endpoint() -> list[openapi.Endpoint]:
    """Returns the routes of every module, in the order in which they are named."""
    modules = (usage_routes, runtime_routes, approval_routes, probe_routes, upstream_routes)
    others = (each for module in modules for each in module.ENDPOINTS)
    every = [*search_routes.ENDPOINTS, *ENDPOINTS, *others]
    return sorted(every, key=lambda endpoint: endpoint.method)


def local_app(app: App) -> Starlette:
    """Returns an ASGI application over ``app``, which runs already, for a command's own process.

    Without a guard before it, it finds the caller's `Access` in each request's scope.
    """
    gateways = {_MESSAGE, *PROBES}
    return _asgi(_routes(app, [each for each in every_endpoint() if each.path not in gateways]))


def gateway_app(  # noqa: PLR0913 - what a gateway adds to what a command needs
    app: App,
    *,
    hosts: tuple[str, ...],
    admit: Admit,
    is_admitted: Callable[[str], bool],
    stats: RequestStats,
    exposure: Exposure,
    pages: Pages,
    tokens: TokenStore,
    settings: Settings,
    replication: Replication | None = None,
    oauth: OAuthServer | None = None,
) -> Starlette:
    """Returns an ASGI application over ``app``, which it runs for as long as it lives.

    Args:
        app: What answers.
        hosts: The names under which requests may ask for this server.
        admit: Gives the bearer of a token access; see `OriginGuard`.
        is_admitted: Whether the holder of an `Access` still has it.
        stats: Counts the requests.
        exposure: What the MCP surface shows.
        pages: Gives the routes of the page.
        tokens: The access tokens, for the page to list and revoke.
        settings: What the gateway was started with, for the page to check.
        replication: What makes it one of several replicas; None if it is none.
        oauth: Lets MCP clients log in; None lets none.
    """
    revocations, refusals = RevocationWatcher(is_admitted), Refusals()
    sessions = PageSessions[Access](is_admitted)
    mount = McpRoutes(app, exposure, revocations, stats)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        watching = revocations.running(app.tasks)
        async with app.running(), watching, mount.running():
            yield

    asgi = _asgi(
        [
            *_routes(app, every_endpoint()),
            *(replica_routes(app, replication) if replication else ()),
            *(oauth_routes(oauth) if oauth else ()),
            *([client_route(document)] if (document := settings.server.client_document) else ()),
            *mount.routes,
            *pages(app),
        ],
        lifespan=lifespan,
        middleware=[
            Middleware(RequestLogMiddleware, stats=stats),
            # The name of a page's domain that points at this address is refused: DNS rebinding.
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
            Middleware(
                OriginGuard,
                is_behind_proxy=hosts == ANY_HOST,
                admit=admit,
                revocations=revocations,
                refusals=refusals,
                sessions=sessions,
                profiles=lambda: app.permissions.written[1],
                oauth=oauth,
            ),
            Middleware(BodyLimit, under_way=app.under_way),
        ],
    )
    asgi.state.sessions, asgi.state.stats, asgi.state.lag = LatestSessions(), stats, None
    asgi.state.page_sessions, asgi.state.is_admitted = sessions, is_admitted
    asgi.state.refusals, asgi.state.oauth = refusals, oauth
    asgi.state.tokens, asgi.state.settings, asgi.state.mcp = tokens, settings, mount
    asgi.state.messages = SessionlessEndpoint(app, mount.exposure)
    return asgi


def _asgi(routes: Sequence[BaseRoute], **more: Any) -> Starlette:
    handlers: Any = {HTTPException: _http_error, Exception: _answer_fault}
    return Starlette(routes=routes, exception_handlers=handlers, **more)


def _routes(app: App, endpoints: Iterable[openapi.Endpoint]) -> list[Route]:
    return [Route(e.path, _make_endpoint(app, e), methods=[e.method]) for e in endpoints]


def _make_endpoint(app: App, asked: openapi.Endpoint) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            if request.url.path not in _WITHOUT_TASKS:
                app.tasks.check()
            if request.method == "POST":
                check_content_type(request, lenient=request.url.path == _MESSAGE)
            if asked.owners and not grant_of(request).is_owner:
                raise DeniedError(f"only the gateway's owner may {asked.owners}")
            with tracing.continued(request.headers):
                return _response(await asked.handler(app, request))
        except ToolscriptError as problem:
            return error_response(problem)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)

    return endpoint


def _response(answer: Any) -> Response:
    """Returns an answer as JSON; a response as it is; for None one that says nothing."""
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, RawResult):
        return StreamingResponse(_pieces(answer.text), media_type="application/json")
    return Response(status_code=202) if answer is None else json_response(answer)


async def _pieces(text: bytes) -> AsyncGenerator[memoryview]:
    view = memoryview(text)
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]


@ENDPOINTS.add("GET", "/skills", answers.SkillsAnswer)
async def list_skills(app: App, request: Request) -> Any:
    """Every skill."""
    scoped = app.skills(grant_of(request))
    report, sees_all = scoped.report(), scoped.grant.is_whole
    skills = [
        answers.SkillAnswer(
            skill_id=skill.id,
            name=skill.name,
            description=skill.summary,
            passages=len(skill.passages),
            for_models=skill.is_for_models,
            file=printable(skill.file) if sees_all else UNSET,
        )
        for skill in report.skills
    ]
    return answers.SkillsAnswer(
        skills=skills,
        total_skills=len(skills),
        folders=[str(folder) for folder in report.folders],
        problems=list(report.problems),
        warnings=list(report.warnings),
        ready=report.ready,
        stats=UNSET if report.stats is None else dict(report.stats),
    )


@ENDPOINTS.add("GET", "/skills/read", answers.SkillFile, _NAME, _FILE)
async def read_skill(app: App, request: Request) -> Any:
    """The whole text of a skill, or of a file of its folder."""
    name = required(request, "name", "the+skill")
    page = await app.skills(grant_of(request)).read(name, parsed(request, _FILE))
    skill, file = page.skill, printable(page.path)
    return answers.SkillFile(skill_id=skill.id, name=skill.name, file=file, text=page.text)


@ENDPOINTS.add("POST", "/skills/update", answers.SkillsAnswer)
async def update_skills(app: App, request: Request) -> Any:
    """Look at every folder of skills now."""
    await while_connected(request, app.skills().refresh())
    return await list_skills(app, request)


@ENDPOINTS.add("GET", "/search/stats", answers.StatsAnswer)
async def stats(app: App, request: Request) -> Any:
    """What is indexed, and by what."""
    return msgspec.convert(app.stats(grant_of(request)), answers.StatsAnswer)


@ENDPOINTS.add("GET", HEALTH, answers.HealthAnswer)
async def health(app: App, request: Request) -> Any:
    """Whether everything is ready."""
    grant = grant_of(request)
    state = app.health(grant)
    status = codes_of(TaskDiedError).http_status if state.failure else 200
    return json_response(answers.health_answer(state, is_public=grant == Grant()), status)


@ENDPOINTS.add("GET", "/servers", answers.ServersAnswer, _RESOURCES)
async def list_servers(app: App, request: Request) -> Any:
    """Every configured server."""
    catalogue = app.catalogue(grant_of(request))
    used = await catalogue.resources() if parsed(request, _RESOURCES) else None
    return answers.ServersAnswer(
        servers=[
            answers.server_answer(status, used.get(status.name) if used else None)
            for status in catalogue.servers()
        ]
    )


@ENDPOINTS.add("GET", "/tools", answers.ToolsAnswer, _SERVER, _ONE)
async def list_tools(app: App, request: Request) -> Any:
    """Every tool, with its schemas."""
    catalogue = app.catalogue(grant_of(request))
    one, server = parsed(request, _ONE), parsed(request, _SERVER)
    specs = catalogue.tools(server) if one is None else [catalogue.tool(one)]
    known = catalogue.tools_by_id(spec.id for spec in specs).values()
    tools = [*map(answers.tool_answer, known)]
    return answers.ToolsAnswer(tools=tools, total_tools=len(tools))


@ENDPOINTS.add("POST", "/tools/{tool:path}", answers.CallAnswer, _TOOL, _MOST, body=dict)
async def call_tool(app: App, request: Request) -> Any:
    """Call a tool; one that fails says so in `isError`, with status 200."""
    arguments = await json_object(request)
    tool, session = request.path_params["tool"], session_of(request)
    return await called(app, request, tool, arguments, session, _classes(request))


async def called(  # noqa: PLR0913, PLR0917 - what a call consists of
    app: App,
    request: Request,
    tool: str,
    arguments: dict[str, Any],
    session: Session,
    classes: tuple[ToolClass, ...],
) -> dict[str, Any]:
    """Returns the result of a tool's call by a request; cancels it where the caller hangs up."""
    grant = grant_of(request)
    call = app.call(
        tool,
        arguments,
        caller_of(request, session),
        grant,
        history=session.history,
        session=session.id,
        classes=classes,
    )
    recorded = audited(app, tool, arguments, grant, call)
    return await while_connected(request, recorded)


def _classes(request: Request) -> tuple[ToolClass, ...]:
    """Returns what the tool may be, by the parameter and by the header of typed clients."""
    stated = request.headers.get(_CLASS_HEADER)
    header = TOOL_CLASSES[-1] if stated is None else _MOST.parse(stated, _CLASS_HEADER)
    most = (parsed(request, _MOST), header)
    return TOOL_CLASSES[: min(map(TOOL_CLASSES.index, most)) + 1]


@ENDPOINTS.add("POST", _MESSAGE, answers.JsonRpcAnswer, body=answers.JsonRpcRequest)
async def message(_: App, request: Request) -> Any:
    """One JSON-RPC request of MCP, without a session."""
    sent = await json_value(request)
    session = session_of(request)
    context = RequestContext(caller_of(request, session), grant_of(request), session)
    messages: SessionlessEndpoint = request.app.state.messages
    return await while_connected(request, messages.answer(sent, context))


@ENDPOINTS.add("GET", "/metrics", media_type="text/plain")
async def metrics(app: App, request: Request) -> Any:
    """Figures for Prometheus."""
    try:  # an extra, and slow to import: not on the event loop
        module = await anyio.to_thread.run_sync(import_module, "toolscript.surfaces.server.metrics")
    except ImportError:
        raise HTTPException(
            501,
            f"metrics need one more package; install it with: {install_command('metrics')}",
        ) from None
    state = request.app.state
    state.lag = state.lag or module.EventLoopLag()
    used = await app.catalogue(grant_of(request)).resources()
    return module.metrics_response(app, access_of(request), state.stats, state.lag, used)


@ENDPOINTS.add("GET", openapi.PATH, media_type="application/json")
async def describe(_: App, __: Request) -> Any:
    """This document."""
    return openapi.describe(__version__, every_endpoint())


def _http_error(request: Request, problem: Exception) -> Response:
    """Answers a path or a method that is not there in JSON; sends a browser to the page."""
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    path = request.url.path
    if path == "/" and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(PAGE)
    routes = [f"{e.method} {e.path}".removeprefix("GET ") for e in every_endpoint()]
    known = ", ".join(route for route in routes if _MESSAGE not in route)
    places = f"the page is at {PAGE}, MCP at {MCP_PATH}"
    headers = problem.headers if isinstance(problem, HTTPException) else None
    use = "POST" if "POST" in str(headers) else "GET"
    text = {
        404: f"there is nothing at {path}; {places}; there are {known}",
        405: f"{request.method} is not answered at {path}; use {use}",
    }.get(status, getattr(problem, "detail", str(problem)))
    return refusal(status, text, headers=headers)


def _answer_fault(request: Request, problem: Exception) -> Response:
    """Logs a fault of toolscript's in full, and answers it in one line."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=problem)
    text = "toolscript made a mistake; the gateway's log has the details"
    return refusal(500, text, "InternalError")
