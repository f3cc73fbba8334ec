"""The HTTP routes of MCP, and the life of its sessions.

``/mcp`` has the exposure of the settings, ``/mcp/search``, ``/mcp/two-phase`` and ``/mcp/all``
their own. The SDK answers, and is imported late, in a thread: once skills can be searched, or the
first request comes. That takes most of a second, in which Python does little else.
"""

import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from toolscript.app.application import App
from toolscript.gateway.base import IMPORTING
from toolscript.surfaces.mcp.request_context import EXPOSURE, EXPOSURES, Exposure
from toolscript.surfaces.mcp.session_limit import IDLE_S, MAX_SESSIONS, OpenSession, SessionLimit
from toolscript.surfaces.mcp.sessionless import INVALID_REQUEST, json_rpc_error
from toolscript.surfaces.server.authentication import holder_of
from toolscript.surfaces.server.error_answers import json_response
from toolscript.surfaces.server.request_log import STREAM, RequestStats
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from toolscript.surfaces.mcp.sdk_server import McpServer

log = logging.getLogger(__name__)
PATH = "/mcp"
PATIENCE_S = 5.0
"""How long the import waits for many skills."""
_VERSION_HEADER, _SESSION_HEADER = "mcp-protocol-version", "mcp-session-id"
_UNSUPPORTED = -32022
_OK = 200


class McpRoutes:
    """The routes, with one server of the SDK for all exposures.

    Requests that come before `running` runs wait for it. A session is its holder's alone, and
    ends when ``revocations`` says so. The client of an unknown session gets 404, and opens another.
    """

    def __init__(  # noqa: PLR0913 - what a gateway wires
        self,
        app: App,
        exposure: Exposure,
        revocations: RevocationWatcher,
        stats: RequestStats,
        *,
        max_sessions: int = MAX_SESSIONS,
        idle_s: float = IDLE_S,
    ) -> None:
        self._app = app
        self._stats = stats
        self._idle_s = idle_s
        self._tasks: TaskGroup | None = None
        self.exposure: Exposure = exposure
        self._sessions = SessionLimit(self._end_soon, revocations, max_sessions)
        self._server: McpServer
        self._manager: StreamableHTTPSessionManager
        self._versions: frozenset[str]
        """The protocol's versions that have sessions."""
        self._due = anyio.Event()
        """Set once the SDK is to be imported."""
        self._ready = anyio.Event()
        """Set once the server runs."""

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
            self._tasks.start_soon(self._app.tasks.run, "mcp", self._run)
            self._tasks.start_soon(self._import_after_skills)
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def _import_after_skills(self) -> None:
        await self._app.skills().settle()
        self._due.set()

    async def _run(self) -> None:
        """Imports the SDK when it is due, and runs the server until cancelled."""
        with anyio.move_on_after(PATIENCE_S):
            await self._due.wait()
        await anyio.to_thread.run_sync(_import)
        # All of it is imported by now.
        from mcp.server.streamable_http_manager import (  # noqa: PLC0415
            StreamableHTTPSessionManager,
        )
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415

        from toolscript.surfaces.mcp.sdk_server import McpServer  # noqa: PLC0415

        self._versions = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)
        self._server = McpServer(self._app, self.exposure)
        # The SDK's own guard of origins is off: ours stands before every route.
        self._manager = StreamableHTTPSessionManager(
            self._server, session_idle_timeout=self._idle_s
        )
        async with self._manager.run():
            self._ready.set()
            await self._server.run_background()

    async def _until_ready(self) -> None:
        self._due.set()
        await self._ready.wait()

    async def answer(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one HTTP request."""
        await self._until_ready()
        scope[EXPOSURE] = exposure
        handle, headers = self._manager.handle_request, Headers(scope=scope)
        version, identifier = headers.get(_VERSION_HEADER), headers.get(_SESSION_HEADER)
        holder = holder_of(HTTPConnection(scope))
        session = self._sessions.find(identifier or "")
        if version and version not in self._versions:  # without sessions, or unknown
            if exposure != "two-phase":
                await handle(scope, receive, send)
                return
            # As the protocol has it: the client continues with a version that has sessions.
            data = {"supported": sorted(self._versions), "requested": version}
            error = json_rpc_error(None, _UNSUPPORTED, "two phases need a session", data)
            await json_response(error, 400)(scope, receive, send)
        elif identifier is None:
            await handle(scope, receive, self._noting(exposure, holder, send))
        elif session is None or not session.is_for(exposure, holder):
            error = json_rpc_error(None, INVALID_REQUEST, "Session not found")  # as the SDK does
            await json_response(error, 404)(scope, receive, send)
        else:
            with self._sessions.using(session):
                await handle(scope, receive, send)
            if scope["method"] == "DELETE":
                self._sessions.finish(session)  # even if the SDK has refused

    def _noting(self, exposure: Exposure, holder: str, send: Send) -> Send:
        """Returns a function that sends an answer, and counts the session that it opens."""

        async def send_noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == _OK:
                opened = Headers(raw=message.get("headers", [])).get(_SESSION_HEADER)
                if opened is not None:
                    self._sessions.add(OpenSession(opened, exposure, holder))
            await send(message)

        return send_noted

    async def stream(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves a session that is one HTTP request; see `SessionStream`."""
        self._stats.streams += 1  # before it waits: a gateway that is still starting is not idle
        try:
            await self._until_ready()
            from toolscript.surfaces.mcp.session_stream import (  # noqa: PLC0415 - the SDK
                SessionStream,
            )

            scope[EXPOSURE] = exposure
            stream = SessionStream(scope, receive, send, self._stats)
            holder, name = holder_of(HTTPConnection(scope)), f"stream-{secrets.token_hex(8)}"
            session = OpenSession(name, exposure, holder, requests=1, close=stream.end)
            self._sessions.add(session)
            try:
                await stream.answer(self._server)
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
        header = (_SESSION_HEADER.encode(), session.identifier.encode())
        scope: Scope = {"type": "http", "method": "DELETE", "path": PATH, "headers": [header]}

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            del message

        try:
            await self._manager.handle_request(scope, receive, send)
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


def _import() -> None:
    with IMPORTING:
        import_module("toolscript.surfaces.mcp.sdk_server")
        import_module("toolscript.surfaces.mcp.session_stream")
