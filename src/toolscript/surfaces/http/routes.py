"""The routes of the HTTP door, over one application."""

import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from toolscript import __version__
from toolscript.app.application import App, DownloadState
from toolscript.config.settings import OPTION, Option
from toolscript.errors import (
    InputError,
    QueryError,
    RangeError,
    TaskDiedError,
    ToolscriptError,
)
from toolscript.gateway.raw_results import RawResult
from toolscript.surfaces.http import graph_routes as graph
from toolscript.surfaces.http import openapi as description
from toolscript.surfaces.http import runtime_routes as runtime
from toolscript.surfaces.http.answers import (
    DownloadAnswer,
    HealthAnswer,
    ServersAnswer,
    SkillAnswer,
    SkillFile,
    SkillsAnswer,
    StatsAnswer,
    ToolsAnswer,
    search_answer,
    tool_answer,
)
from toolscript.surfaces.http.client_sessions import Sessions, session_of
from toolscript.surfaces.http.request_body import BodyLimit, body, check_kind, message, while_heard
from toolscript.surfaces.mcp.endpoint import Exposure, RequestContext, ToolEndpoint
from toolscript.surfaces.mcp.mcp_routes import Mount
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources
from toolscript.surfaces.mcp.sessionless import Messages
from toolscript.surfaces.server.audit_log import audited
from toolscript.surfaces.server.authentication import (
    LOOPBACK_HOSTS,
    Admit,
    OriginGuard,
    access_of,
    admit_everybody,
    grant_of,
    holder_of,
)
from toolscript.surfaces.server.error_answers import error_response, json_response, refusal
from toolscript.surfaces.server.error_codes import codes_of
from toolscript.surfaces.server.event_loop_lag import EventLoopLag
from toolscript.surfaces.server.metrics import metrics
from toolscript.surfaces.server.request_log import RequestLogMiddleware, RequestStats
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher
from toolscript.text import printable
from toolscript.types import Grant, SearchRequest

log = logging.getLogger(__name__)
_MAX_SERVERS = 100
_METRICS = "/metrics"
_MESSAGE = "/message"
"""The one address where a POST may be of any kind: a program may leave that to ``curl -d``."""
_EXPLAIN = Option("explain", bool, default=False, help="")
_SKILLS = Option("skills", bool, default=False, help="")
_NEEDED = Option("needed", bool, default=False, help="")
_PIECE_BYTES = 256 * 1024
"""Of a large result: between two pieces the event loop has time for others."""
_HUNG_UP = 499
"""For nobody to see: the client is gone."""

_Answer: TypeAlias = Callable[[App, Request], Awaitable[Any]]


def http_app(  # noqa: PLR0913 - what a gateway adds to what a command needs
    app: App,
    *,
    hosts: tuple[str, ...] = LOOPBACK_HOSTS,
    admit: Admit = admit_everybody,
    admits: Callable[[str], bool] = bool,
    traffic: RequestStats | None = None,
    own: bool = True,
    exposure: Exposure | None = None,
) -> Starlette:
    """An ASGI application over ``app``, which it runs for as long as it lives if it is its ``own``.

    Who may ask, and for what, is decided by the `OriginGuard`; for how long, by
    ``admits``, which is asked of a holder of an `Access`. With an ``exposure``
    it also has the MCP door.
    """
    revocations = RevocationWatcher(admits)
    mount = Mount(app, exposure, grant_of, holder_of, revocations) if exposure else None
    traffic, pulse = traffic or RequestStats(), EventLoopLag()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        serving = mount.running() if mount else nullcontext()
        looking = revocations.running(app.task_monitor)
        async with app.running(), pulse.running(app.task_monitor), looking, serving:
            yield

    async def numbers(app: App, request: Request) -> Any:
        return await metrics(app, access_of(request), traffic, pulse)

    routes = [Route(path, _endpoint(app, answer)) for path, answer in _ROUTES.items()]
    posts = [Route(p, _endpoint(app, a), methods=["POST"]) for p, a in _POSTS.items()]
    made = Starlette(
        routes=[
            *routes,
            Route(_METRICS, _endpoint(app, numbers)),
            *posts,
            *(_mcp_routes(app, mount) if mount else ()),
        ],
        lifespan=lifespan if own else None,
        middleware=[
            Middleware(RequestLogMiddleware, traffic=traffic),
            Middleware(OriginGuard, hosts=hosts, admit=admit, revocations=revocations),
            Middleware(BodyLimit),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _unexpected},
    )
    made.state.sessions = Sessions()
    return made


def _mcp_routes(app: App, mount: Mount) -> list[Route]:
    messages = Messages(ToolEndpoint(app, mount.exposure), PromptsAndResources(app))

    async def answer(_: App, request: Request) -> Any:
        sent = await message(request)
        asker = RequestContext(grant=grant_of(request), session=session_of(request))
        return await while_heard(request, messages.answer(sent, asker))

    return [*mount.routes, Route(_MESSAGE, _endpoint(app, answer), methods=["POST"])]


def _endpoint(app: App, answer: _Answer) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            if answer is not _health:
                app.task_monitor.check()
            if request.method == "POST":
                check_kind(request, lenient=request.url.path == _MESSAGE)
            return _response(await answer(app, request))
        except ToolscriptError as problem:
            return error_response(problem)
        except ClientDisconnect:
            return Response(status_code=_HUNG_UP)

    return endpoint


def _response(answered: Any) -> Response:
    """As JSON; what is a response already stays so, and nothing to say is accepted silently."""
    if isinstance(answered, Response):
        return answered
    if isinstance(answered, RawResult):
        return StreamingResponse(_pieces(answered.text), media_type="application/json")
    return Response(status_code=202) if answered is None else json_response(answered)


async def _pieces(text: bytes) -> AsyncGenerator[memoryview]:
    view = memoryview(text)
    for start in range(0, len(view), _PIECE_BYTES):
        yield view[start : start + _PIECE_BYTES]


async def _search(app: App, request: Request) -> Any:
    query = request.query_params.get("q")
    if query is None:
        raise QueryError("the parameter q is missing; ask for /search?q=what+the+tool+should+do")
    servers = tuple(request.query_params.getlist("server"))
    if len(servers) > _MAX_SERVERS:
        raise RangeError(f"server is given {len(servers)} times; at most {_MAX_SERVERS} are")
    skills = _SKILLS.parse(request.query_params.get("skills", False), "skills")
    why = request.query_params.get("why", "")
    asked = replace(_asked(query, request), servers=servers, why=why, skills=skills)
    needed = _NEEDED.parse(request.query_params.get("needed", False), "needed")
    found = await app.search(replace(asked, needed=needed), session_of(request).history)
    return search_answer(query, found, mark=skills)


def _asked(query: str, request: Request) -> SearchRequest:
    """What tools and skills are searched with alike."""
    return SearchRequest(
        text=query,
        limit=_number(request, "limit"),
        threshold=_number(request, "threshold"),
        grant=grant_of(request),
        explain=_EXPLAIN.parse(request.query_params.get("explain", False), "explain"),
    )


async def _search_skills(app: App, request: Request) -> Any:
    query = request.query_params.get("q")
    if query is None:
        raise QueryError("the parameter q is missing; ask for /skills/search?q=how+to+do+it")
    return search_answer(query, await app.search_skills(_asked(query, request)))


async def _skills(app: App, request: Request) -> Any:
    grant = grant_of(request)
    service, whole = app.skill_service, grant.is_everything
    skills = [
        SkillAnswer(
            skill_id=skill.id,
            name=skill.name,
            description=skill.summary,
            passages=len(skill.passages),
            file=printable(skill.file) if whole else UNSET,
        )
        for skill in service.skills(grant)
    ]
    return SkillsAnswer(
        skills=skills,
        total_skills=len(skills),
        folders=[str(folder) for folder in service.folders.present()] if whole else [],
        problems=service.problems() if whole else [],
        ready=service.ready,
        stats=service.stats() if whole else UNSET,
    )


async def _read_skill(app: App, request: Request) -> Any:
    name, file = request.query_params.get("name"), request.query_params.get("file", "")
    if name is None:
        raise InputError("the parameter name is missing; ask for /skills/read?name=the+skill")
    page = await app.read_skill(name, file, grant_of(request))
    skill, file = page.skill, printable(page.path)
    return SkillFile(skill_id=skill.id, name=skill.name, file=file, text=page.text)


async def _update_skills(app: App, request: Request) -> Any:
    await while_heard(request, app.skill_service.refresh())
    return await _skills(app, request)


async def _description(_: App, __: Request) -> Any:
    return description.describe(__version__)


async def _stats(app: App, request: Request) -> Any:
    return msgspec.convert(app.stats(grant_of(request)), StatsAnswer)


async def _health(app: App, request: Request) -> Any:
    grant = grant_of(request)
    health = app.health(grant)
    failure, download = health.failure, health.download
    alive = "ready" if health.ready else "starting"
    answer = HealthAnswer(
        error=str(failure) if failure else UNSET,
        type=type(failure).__name__ if failure else UNSET,
        status="failed" if failure else alive,
    )
    if grant != Grant():
        answer = replace(
            answer,
            version=__version__,
            pid=os.getpid(),
            tools=health.tools,
            tools_waiting=health.waiting,
            passages_waiting=health.passages_waiting,
            waiting_for=health.waiting_for,
            download=_download(download) if download else None,
            configuration=health.config,
            configuration_problem=health.config_problem,
            tasks=health.tasks,
        )
    status = codes_of(TaskDiedError).http_status if failure else 200
    return json_response(answer, status)


def _download(state: DownloadState) -> DownloadAnswer:
    return DownloadAnswer(
        model=state.model, done_bytes=state.done_bytes, total_bytes=state.total_bytes
    )


async def _servers(app: App, request: Request) -> Any:
    return ServersAnswer(servers=app.servers(grant_of(request)))


async def _tools(app: App, request: Request) -> Any:
    specs = app.tools(request.query_params.get("server"), grant_of(request))
    return ToolsAnswer(tools=[tool_answer(spec) for spec in specs], total_tools=len(specs))


async def _call(app: App, request: Request) -> Any:
    arguments = await body(request)
    history = session_of(request).history
    tool = request.path_params["tool"]
    called = app.call(tool, arguments, grant=grant_of(request), history=history)
    return await while_heard(request, audited(tool, called))


_ROUTES: dict[str, _Answer] = {
    "/search": _search,
    "/search/stats": _stats,
    "/health": _health,
    "/servers": _servers,
    "/tools": _tools,
    "/skills": _skills,
    "/skills/search": _search_skills,
    "/skills/read": _read_skill,
    "/graph": graph.show,
    "/graph/related": graph.related,
    "/runtime/tools.ts": runtime.typescript,
    "/runtime/tools.py": runtime.python,
    description.PATH: _description,
}
_POSTS: dict[str, _Answer] = {
    "/tools/{tool:path}": _call,
    "/skills/update": _update_skills,
    "/graph/import": graph.import_known,
    "/graph/clear": graph.clear,
}


def _number(request: Request, name: str) -> Any:
    """A parameter in its option's type and range; None when it is not given."""
    given = request.query_params.get(name)
    return None if given is None else OPTION[name].parse(given, name)


def _http_error(request: Request, problem: Exception) -> Response:
    """A path or method that is not there: in JSON, like everything else."""
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    path = request.url.path
    known = ", ".join([*_ROUTES, _METRICS, *(f"POST {path}" for path in _POSTS)])
    posts = ("/tools/", "/skills/update", "/graph/")
    use = "POST" if path.startswith(posts) else "GET"
    message = {
        404: f"there is nothing at {path}; there are {known}",
        405: f"{request.method} is not answered at {path}; use {use}",
    }.get(status, getattr(problem, "detail", str(problem)))
    return refusal(status, message)


def _unexpected(request: Request, problem: Exception) -> Response:
    """The boundary: a fault of ours is logged in full and told in one line."""
    log.error("%s %s failed", request.method, request.url.path, exc_info=problem)
    message = "toolscript made a mistake; the gateway's log has the details"
    return refusal(500, message, "InternalError")
