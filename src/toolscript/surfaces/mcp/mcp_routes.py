"""The HTTP routes of MCP, and the life of its sessions.

``/mcp`` has the exposure of the settings, ``/mcp/search``, ``/mcp/two-phase`` and ``/mcp/all``
their own. `session_dispatch` decides who answers a request.
"""

import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.abc import TaskGroup
from starlette.requests import HTTPConnection
from starlette.routing import Route
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from toolscript.app.application import App
from toolscript.surfaces.mcp.late_import import LateServers
from toolscript.surfaces.mcp.request_context import EXPOSURES, Exposure
from toolscript.surfaces.mcp.session_dispatch import SESSION_HEADER, McpRequest, SessionDispatch
from toolscript.surfaces.mcp.session_ids import SessionIds
from toolscript.surfaces.mcp.session_limit import IDLE_S, MAX_SESSIONS, OpenSession, SessionLimit
from toolscript.surfaces.server.authentication import holder_of
from toolscript.surfaces.server.request_log import STREAM, RequestStats
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher

log = logging.getLogger(__name__)
PATH = "/mcp"


class McpRoutes:
    """The routes, with one session manager for each exposure.

    Requests that come before `running` runs wait for it. A session is its holder's alone, and
    ends when ``revocations`` says so.
    """

    def __init__(  # noqa: PLR0913 - what a gateway wires
        self,
        app: App,
        exposure: Exposure,
        revocations: RevocationWatcher,
        stats: RequestStats,
        ids: SessionIds,
        *,
        url_of: Callable[[str], str | None] | None = None,
        max_sessions: int = MAX_SESSIONS,
        idle_s: float = IDLE_S,
    ) -> None:
        self._app = app
        self._stats = stats
        self._tasks: TaskGroup | None = None
        self.exposure: Exposure = exposure
        self._sessions = SessionLimit(self._end_soon, revocations, max_sessions)
        self._late = LateServers(app, ids, is_alone=url_of is None, idle_s=idle_s)
        self._dispatch = SessionDispatch(app, self._late, self._sessions, ids, url_of)

    @property
    def routes(self) -> list[Route]:
        """The addresses, each answered by its exposure."""
        places: list[tuple[str, Exposure]] = [(PATH, self.exposure)]
        places.extend((f"{PATH}/{name}", name) for name in EXPOSURES)
        # Clients that are redirected to the path without a slash drop their body or token.
        ways = {STREAM: self.stream, "": self.answer, "/": self.answer}
        return [
            Route(f"{place}{end}", _AsgiEndpoint(way, name))
            for end, way in ways.items()
            for place, name in places
        ]

    @property
    def open_sessions(self) -> list[OpenSession]:
        """The sessions of clients, that with the latest request last."""
        return self._sessions.all()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serves for as long as the block lasts; then ends every session."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._app.tasks.run, "mcp", self._late.run)
            self._tasks.start_soon(self._late.import_after_skills)
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def answer(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        await self._dispatch.answer(McpRequest(exposure, scope, receive, send))

    async def stream(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a session that is one HTTP request; see `SessionStream`."""
        self._stats.streams += 1  # before it waits: a gateway that is still starting is not idle
        try:
            await self._late.wait()
            from toolscript.surfaces.mcp.session_stream import (  # noqa: PLC0415 - the SDK
                SessionStream,
            )

            stream = SessionStream(scope, receive, send, self._stats)
            holder, name = holder_of(HTTPConnection(scope)), f"stream-{secrets.token_hex(8)}"
            session = OpenSession(name, "", exposure, holder, requests=1, close=stream.end)
            self._sessions.add(session)
            try:
                await stream.answer(self._late.servers[exposure])
            finally:
                self._sessions.discard(session)
        finally:
            self._stats.streams -= 1

    def _end_soon(self, session: OpenSession) -> None:
        if session.close is not None:
            session.close()
        elif self._tasks is not None:
            self._tasks.start_soon(self._end, session)

    async def _end(self, session: OpenSession) -> None:
        """Ends a session as its client would, which cancels its requests."""
        header = (SESSION_HEADER.encode(), session.sdk_identifier.encode())
        scope: Scope = {"type": "http", "method": "DELETE", "path": PATH, "headers": [header]}

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: AsgiMessage) -> None:
            del message

        try:
            await self._late.managers[session.exposure].handle_request(scope, receive, send)
        except Exception:
            # A boundary: whatever is wrong with one session, the others go on.
            log.exception("a session could not be ended")


@dataclass(frozen=True, slots=True)
class _AsgiEndpoint:
    """An ASGI application: Starlette takes a plain function for one that returns a response."""

    answer: Callable[[Exposure, Scope, Receive, Send], Awaitable[None]]
    exposure: Exposure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self.answer(self.exposure, scope, receive, send)
