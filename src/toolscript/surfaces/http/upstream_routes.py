"""The routes about one server: what it wrote in its log, and to start it anew."""

from typing import Any

import anyio.to_thread
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.config.settings import Option
from toolscript.surfaces.http.answers import ServerLogAnswer, ServersAnswer, server_answer
from toolscript.surfaces.http.openapi import REQUIRED, Endpoints
from toolscript.surfaces.http.request_input import parsed, required, while_connected
from toolscript.surfaces.server.authentication import grant_of

ENDPOINTS = Endpoints()
_LINES = Option("lines", int, 40, "At most so many.", bounds=(1, 10_000))
_SERVER = Option("server", str, REQUIRED, "Its name.")
_OWNERS = "read logs and start servers anew"


@ENDPOINTS.add("GET", "/servers/log", ServerLogAnswer, _SERVER, _LINES, owners=_OWNERS)
async def server_log(app: App, request: Request) -> Any:
    """The last lines that a server has written on standard error."""
    (name, catalogue), count = _server(app, request), parsed(request, _LINES)
    file, lines = await anyio.to_thread.run_sync(catalogue.gateway.log, name, count)
    return ServerLogAnswer(server_name=name, file=str(file), lines=lines)


@ENDPOINTS.add("POST", "/servers/restart", ServersAnswer, _SERVER, owners=_OWNERS)
async def restart_server(app: App, request: Request) -> Any:
    """Stop a server, and start it anew."""
    name, catalogue = _server(app, request)
    await while_connected(request, catalogue.restart(name))
    own = [status for status in catalogue.servers() if status.name == name]
    return ServersAnswer(servers=[server_answer(status, None) for status in own])


def _server(app: App, request: Request) -> tuple[str, ScopedCatalogue]:
    """Returns the name of the server that is asked for, and the catalogue that has it."""
    name, catalogue = required(request, "server", "git"), app.catalogue(grant_of(request))
    catalogue.check((name,))
    return name, catalogue
