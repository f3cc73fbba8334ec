"""What is under way at the HTTP door: each request has an id and a line in the log."""

import logging
import re
import secrets
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolscript.surfaces.server.authentication import holder_in
from toolscript.surfaces.server.error_answers import refusal
from toolscript.surfaces.server.logs import REQUEST

log = logging.getLogger(__name__)
_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(eq=False, slots=True)
class Ended:
    """Requests that have ended, by route and status."""

    number: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    seconds: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """How long they took, in all."""


class RequestStats:
    """The requests under way. Closed, it lets those end and takes no others.

    It also counts those that have ended, and the seconds they took, by route
    and status, and by who was let in.
    """

    def __init__(self) -> None:
        self.running = 0
        self.closed = False
        self.all = Ended()
        self.by_holder: defaultdict[str, Ended] = defaultdict(Ended)

    def note(self, holder: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        for ended in (self.all, self.by_holder[holder]):
            ended.number[route, status] += 1
            ended.seconds[route, status] = ended.seconds.get((route, status), 0.0) + seconds


class RequestLogMiddleware:
    """Gives each request an id, the caller's own where that is one, and logs how it went.

    A stream that a client only listens to, a GET that accepts events, does not
    count as running: it ends when the gateway does.
    """

    def __init__(self, app: ASGIApp, stats: RequestStats) -> None:
        self._app = app
        self._stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        given = request.headers.get("x-request-id", "")
        identifier = given if _ID.fullmatch(given) else secrets.token_hex(8)
        token = REQUEST.set(identifier)
        try:
            await self._answer(request, identifier, receive, send)
        finally:
            REQUEST.reset(token)

    async def _answer(
        self, request: HTTPConnection, identifier: str, receive: Receive, send: Send
    ) -> None:
        began, status = time.perf_counter(), 0
        listens = "text/event-stream" in request.headers.get("accept", "") and _is_get(request)

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (b"x-request-id", identifier.encode()),
                ]
            await send(message)

        app = _refuse if self._stats.closed else self._app
        method, path = request.scope["method"], request.url.path
        self._stats.running += not listens
        log.debug("%s %s has come", method, path)
        try:
            await app(request.scope, receive, noted)
        finally:
            self._stats.running -= not listens
            seconds = time.perf_counter() - began
            self._stats.note(holder_in(request.scope), _route(request.scope), status, seconds)
            took = round(seconds * 1000, 1)
            log.info(
                "%s %s: %s in %s ms",
                *(method, path, status, took),
                extra={"method": method, "path": path, "status": status, "ms": took},
            )


def _route(scope: Scope) -> str:
    """The route that was taken, its parameters by name; a path that is none is not repeated."""
    if "endpoint" not in scope:
        return "other"
    path = scope["path"]
    for name, value in scope["path_params"].items():
        path = path.removesuffix(value) + f"{{{name}}}"
    return path


def _is_get(request: HTTPConnection) -> bool:
    return request.scope["method"] == "GET"


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    message = "the gateway is closing down; try again"
    closing = refusal(503, message, "NotReadyError", {"retry-after": "5"})
    await closing(scope, receive, send)
