"""Shows each server's health, what it offers, its calls and memory, and how to repair it."""

from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.call_figures import CallFigures, call_figures
from toolscript.config.permission_rules import literal
from toolscript.errors import UpstreamError
from toolscript.gateway.base import Caller
from toolscript.storage.activity_log import MAX_ROWS, ActivityQuery
from toolscript.surfaces.http.answers import ServerAnswer, server_answer
from toolscript.surfaces.http.usage_routes import recorded
from toolscript.surfaces.server.authentication import access_of, grant_of
from toolscript.surfaces.web.screens import Screens, check_owner
from toolscript.surfaces.web.search_lab import price
from toolscript.types import SEPARATOR, ToolClass

SCREENS = Screens()
MAX_TOOLS = 100
"""Tools of a server that its screen lists."""


class ServersScreen(Struct, frozen=True, kw_only=True):
    """Every server that the caller may know, those in need first."""

    servers: list[ServerAnswer]
    figures: dict[str, CallFigures]
    """The figures of their calls, by server; a server without calls has none."""
    measured: bool
    """Whether memory is known."""


class ToolRow(Struct, frozen=True, kw_only=True):
    """A tool in the list of its server."""

    id: str
    name: str
    description: str
    tool_class: ToolClass
    tokens: int


class ServerScreen(Struct, frozen=True, kw_only=True):
    """One server."""

    server: ServerAnswer
    figures: CallFigures | None
    """The figures of its calls; None if there were none."""
    tools: list[ToolRow]
    total: int
    tokens: int
    """What listing all its tools costs a model, in estimated tokens."""
    tried: str = ""
    """What came of trying it again."""
    login: str = ""
    """The address where the owner logs in to it."""


class _LoginCaller(Caller):
    """Takes the address of a login, which the screen then shows to its user."""

    address = ""
    may_log_in = opens_addresses = True

    async def elicit(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See `Caller`."""
        del method
        address = str(params.get("url", ""))
        if urlsplit(address).scheme in {"http", "https"}:
            self.address = address
        return {"action": "accept"}


@SCREENS.add("GET", "/servers", "servers.html")
async def servers(app: App, request: Request) -> Any:
    """Every server."""
    listed, figures = await _measure(app, request)
    in_need = {"invalid": 0, "failed": 1, "connecting": 2}
    listed.sort(key=lambda server: (in_need.get(server.state, 3), server.name))
    measured = any(server.memory_mib for server in listed)
    return ServersScreen(servers=listed, figures=figures, measured=measured)


@SCREENS.add("GET", "/servers/{name}", "server.html")
async def server(app: App, request: Request) -> Any:
    """One server, with its tools."""
    name = request.path_params["name"]
    app.catalogue(grant_of(request)).check((name,))
    [measured], figures = await _measure(app, request, name)
    specs = app.catalogue(grant_of(request)).tools(name)
    return ServerScreen(
        server=measured,
        figures=figures.get(name),
        tools=[
            ToolRow(
                id=spec.id,
                name=spec.name,
                description=spec.description,
                tool_class=spec.tool_class,
                tokens=price(spec),
            )
            for spec in specs[:MAX_TOOLS]
        ],
        total=len(specs),
        tokens=sum(map(price, specs)),
    )


@SCREENS.add("POST", "/servers/{name}", "server.html")
async def try_again(app: App, request: Request) -> Any:
    """Connects to a server again; begins a login if it needs one."""
    check_owner(request)
    name, caller = request.path_params["name"], _LoginCaller()
    catalogue = app.catalogue(grant_of(request))
    catalogue.check((name,))
    try:
        await catalogue.reach_server(name, caller)
        tried = "It is connected."
    except UpstreamError as error:
        tried = "" if caller.address else str(error)
    return replace(await server(app, request), tried=tried, login=caller.address)


async def _measure(
    app: App, request: Request, name: str | None = None
) -> tuple[list[ServerAnswer], dict[str, CallFigures]]:
    """Returns one server or every one, and the figures of calls; only these are measured."""
    catalogue = app.catalogue(grant_of(request))
    used = await catalogue.resources(name)
    pattern = None if name is None else f"{literal(name)}{SEPARATOR}*"
    page = await recorded(app, access_of(request), ActivityQuery(MAX_ROWS, tool=pattern))
    listed = [
        server_answer(status, used.get(status.name))
        for status in catalogue.servers()
        if name in {None, status.name}
    ]
    figures = call_figures(page.calls, lambda call: call.server)
    return listed, {each.name: figures[each.name] for each in listed if each.name in figures}
