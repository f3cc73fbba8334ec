"""Gives each HTTP request an id and a line in the log, and counts requests for the metrics."""

import logging
import re
import secrets
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolscript.gateway.base import FORWARDED
from toolscript.surfaces.server.authentication import ACCESS, HEALTH, PROBES, Access
from toolscript.surfaces.server.error_answers import RETRY_AFTER, refusal
from toolscript.surfaces.server.logs import REQUEST

log = logging.getLogger(__name__)
STREAM = "/stream"
_STREAMS = re.compile(rf"/mcp(/p/[^/]+)?(/[a-z-]+)?{STREAM}")
_WATCHING = PROBES | {HEALTH}
"""Routes that supervisors ask, who are no clients."""
CLOSING = "the gateway is closing down; try again"
_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CONVERTER = re.compile(r":\w+\}")


@dataclass(eq=False, slots=True)
class RequestCounts:
    """How many requests have ended, by route and status."""

    number: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    seconds: dict[tuple[str, int], float] = field(default_factory=dict[tuple[str, int], float])
    """How long they took in total."""


def is_stream(path: str) -> bool:
    """Whether requests to this path carry a whole session of MCP."""
    return _STREAMS.fullmatch(path) is not None


class RequestStats:
    """Counts the requests under way and those that have ended, in total and by holder.

    Once it is ``closed``, those under way go on, and others are refused: but for probes, and for
    requests of other replicas as long as there are own ones, since only this one runs its servers.
    """

    def __init__(self) -> None:
        self.running = 0
        self.forwarded = 0
        """How many of them are of other replicas."""
        self.streams = 0
        """How many clients have a session open that is one request."""
        self.latest = time.monotonic()
        """When the last request began or ended, probes and that of health aside."""
        self.closed = False
        self.total = RequestCounts()
        self.by_holder: defaultdict[str, RequestCounts] = defaultdict(RequestCounts)

    def admits(self, path: str) -> bool:
        """Whether a request to this path that begins now is answered."""
        if path == FORWARDED:
            return not self.closed or self.running > self.forwarded
        return not self.closed or path in PROBES

    def touch(self, path: str) -> None:
        """Take note that a request to this path begins or ends."""
        if path not in _WATCHING:
            self.latest = time.monotonic()

    def is_idle(self, seconds: float) -> bool:
        """Whether no client has been there for so long."""
        busy = self.running or self.streams
        return not busy and time.monotonic() - self.latest > seconds

    def add(self, holder: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        for counts in (self.total, self.by_holder[holder]):
            counts.number[route, status] += 1
            counts.seconds[route, status] = counts.seconds.get((route, status), 0.0) + seconds


class RequestLogMiddleware:
    """Gives each request an id, the caller's own if it sends one, and logs it.

    A stream that a client only listens to, a GET that accepts events, does not
    count as running: it ends when the gateway does. Of a stream that is a session, the
    requests in it count.
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
        REQUEST.set(identifier)  # in the task of this request
        began, status = time.perf_counter(), 0
        method, path = scope["method"], request.url.path
        events = method == "GET" and "text/event-stream" in request.headers.get("accept", "")
        listens = events or is_stream(path)

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    (b"x-request-id", identifier.encode()),
                ]
            await send(message)

        is_forwarded = path == FORWARDED
        app = self._app if self._stats.admits(path) else _refuse
        self._stats.running += not listens
        self._stats.forwarded += is_forwarded
        self._stats.touch(path)
        log.debug("%s %s: begun", method, path)
        try:
            await app(scope, receive, send_with_id)
        finally:
            self._stats.running -= not listens
            self._stats.forwarded -= is_forwarded
            self._stats.touch(path)
            seconds = time.perf_counter() - began
            access: Access | None = scope.get(ACCESS)  # None if it was refused
            holder = access.holder if access else ""
            self._stats.add(holder, _route(scope), status, seconds)
            took = round(seconds * 1000, 1)
            log.info(
                "%s %s: %s in %s ms",
                *(method, path, status, took),
                extra={"method": method, "path": path, "status": status, "ms": took},
            )


def _route(scope: Scope) -> str:
    """Returns the route's path with its parameters' names; never a path that a caller made up."""
    path: str | None = getattr(scope.get("route"), "path", None)
    if path is None:
        return "other"
    mounted = scope["root_path"].removeprefix(scope.get("app_root_path", ""))
    # `root_path` ends with the path of a mount that has no routes, such as that of files.
    return _CONVERTER.sub("}", mounted if mounted.endswith(path) else mounted + path)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    closing = refusal(503, CLOSING, "NotReadyError", RETRY_AFTER)
    await closing(scope, receive, send)
