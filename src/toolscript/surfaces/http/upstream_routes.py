"""The routes about one server: what it wrote in its log, and to start it anew."""

from typing import Any

import anyio.to_thread
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.config.settings import Option
from toolscript.errors import DeniedError
from toolscript.surfaces.http.answers import ServerLogAnswer, ServersAnswer, server_answer
from toolscript.surfaces.http.openapi import TEXT, Endpoints, parameter
from toolscript.surfaces.http.request_input import parsed, required, while_connected
from toolscript.surfaces.server.authentication import grant_of

ENDPOINTS = Endpoints()
_LINES = Option("lines", int, 40, "", bounds=(1, 10_000))
_COUNT = {"type": "integer", "minimum": 1, "maximum": 10_000}
_SERVER = parameter("server", "Its name.", TEXT, required=True)


@ENDPOINTS.add(
    "GET", "/servers/log", ServerLogAnswer, _SERVER, parameter("lines", "At most so many.", _COUNT)
)
async def server_log(app: App, request: Request) -> Any:
    """The last lines that a server has written on standard error."""
    (name, catalogue), count = _check_owner(app, request), parsed(request, _LINES, _LINES.default)
    file, lines = await anyio.to_thread.run_sync(catalogue.gateway.log, name, count)
    return ServerLogAnswer(server_name=name, file=str(file), lines=lines)


@ENDPOINTS.add("POST", "/servers/restart", ServersAnswer, _SERVER)
async def restart_server(app: App, request: Request) -> Any:
    """Stop a server, and start it anew."""
    name, catalogue = _check_owner(app, request)
    await while_connected(request, catalogue.restart(name))
    own = [status for status in catalogue.servers() if status.name == name]
    return ServersAnswer(servers=[server_answer(status, None) for status in own])


def _check_owner(app: App, request: Request) -> tuple[str, ScopedCatalogue]:
    """Returns the server's name, and the catalogue of the owner, who alone may do so."""
    name, catalogue = required(request, "server", "git"), app.catalogue(grant_of(request))
    if not catalogue.grant.is_owner:
        raise DeniedError("only the gateway's owner may read logs and start servers anew")
    catalogue.check((name,))
    return name, catalogue
