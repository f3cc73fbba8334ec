"""The HTTP routes of MCP.

``/mcp`` has the exposure of the settings, ``/mcp/search``, ``/mcp/two-phase``
and ``/mcp/all`` their own. The SDK is imported in a thread once skills can be
searched, or the first request comes: that takes most of a second, in which Python does
little else.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
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

from toolscript.app import argument_checks
from toolscript.app.application import App
from toolscript.gateway.base import IMPORTING
from toolscript.surfaces.mcp.endpoint import EXPOSURES, Exposure
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
        *,
        max_sessions: int = MAX_SESSIONS,
        idle_s: float = IDLE_S,
    ) -> None:
        self._app = app
        self._stats = stats
        self._sessions = SessionLimit(self._end_soon, revocations, max_sessions)
        self._idle_s = idle_s
        self._tasks: TaskGroup | None = None
        self.exposure: Exposure = exposure
        self._managers: dict[Exposure, StreamableHTTPSessionManager] = {}
        self._servers: dict[Exposure, McpServer] = {}
        self._versions: frozenset[str] = frozenset()
        """The protocol's versions that have sessions."""
        self._due = anyio.Event()
        """Set once the SDK is to be imported."""
        self._ready = anyio.Event()

    @property
    def routes(self) -> list[Route]:
        """The addresses, each answered by its exposure."""
        places: list[tuple[str, Exposure]] = [(PATH, self.exposure)]
        places.extend((f"{PATH}/{name}", name) for name in EXPOSURES)
        streams = [Route(f"{place}{STREAM}", _Stream(self, name)) for place, name in places]
        return [*streams, *(Route(place, _AsgiEndpoint(self, name)) for place, name in places)]

    @property
    def open_sessions(self) -> list[OpenSession]:
        """The sessions of clients, that with the latest request last."""
        return self._sessions.all()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve for as long as the block lasts; then end every session."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._app.tasks.run, "mcp", self._serve)
            self._tasks.start_soon(self._import_after_skills)
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def answer(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        self._due.set()
        await self._ready.wait()
        headers = Headers(scope=scope)
        version = headers.get(_VERSION_HEADER)
        session = self._sessions.find(headers.get(_SESSION_HEADER, ""))
        if exposure == "two-phase" and version and version not in self._versions:
            # As the protocol has it: the client continues with a version that has sessions.
            data = {"supported": sorted(self._versions), "requested": version}
            refusal = json_rpc_error(None, _UNSUPPORTED, "two phases need a session", data)
            await json_response(refusal, 400)(scope, receive, send)
        elif session is None:
            await self._answer_without(exposure, scope, receive, send)
        elif not session.is_for(exposure, holder_of(HTTPConnection(scope))):
            # As the SDK answers for a session that does not exist.
            refusal = json_rpc_error(None, INVALID_REQUEST, "Session not found")
            await json_response(refusal, 404)(scope, receive, send)
        else:
            with self._sessions.using(session):
                await self._managers[exposure].handle_request(scope, receive, send)
            if scope["method"] == "DELETE":
                self._sessions.finish(session)  # even if the SDK has refused

    async def _answer_without(
        self, exposure: Exposure, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request that has no session, or opens one."""

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == _OK:
                opened = Headers(raw=message.get("headers", [])).get(_SESSION_HEADER)
                if opened is not None:
                    holder = holder_of(HTTPConnection(scope))
                    self._sessions.add(OpenSession(opened, exposure, holder))
            await send(message)

        await self._managers[exposure].handle_request(scope, receive, send_and_count)

    async def stream(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a session that is one HTTP request; see `SessionStream`."""
        self._due.set()
        await self._ready.wait()
        from toolscript.surfaces.mcp.session_stream import SessionStream  # noqa: PLC0415 - the SDK

        stream = SessionStream(scope, receive, send, self._stats)
        self._stats.streams += 1
        try:
            await stream.answer(self._servers[exposure], exposure)
        finally:
            self._stats.streams -= 1

    def _end_soon(self, session: OpenSession) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._end, session)

    async def _end(self, session: OpenSession) -> None:
        """End a session as its client would, which cancels its requests."""
        header = (_SESSION_HEADER.encode(), session.identifier.encode())
        scope: Scope = {"type": "http", "method": "DELETE", "path": PATH, "headers": [header]}

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            del message

        try:
            await self._managers[session.exposure].handle_request(scope, receive, send)
        except Exception:
            # A boundary: whatever is wrong with one session, the others go on.
            log.exception("a session could not be ended")

    async def _import_after_skills(self) -> None:
        await self._app.skills.settled()
        self._due.set()

    async def _serve(self) -> None:
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
        async with AsyncExitStack() as stack:
            self._servers = {name: McpServer(self._app, name) for name in EXPOSURES}
            for name, server in self._servers.items():
                # The SDK's own guard of origins is off: ours stands before every route.
                manager = StreamableHTTPSessionManager(server, session_idle_timeout=self._idle_s)
                await stack.enter_async_context(manager.run())
                self._managers[name] = manager
            tasks = await stack.enter_async_context(anyio.create_task_group())
            for server in self._servers.values():
                tasks.start_soon(server.run_background)
            self._ready.set()


@dataclass(frozen=True, slots=True)
class _AsgiEndpoint:
    """An ASGI application: Starlette takes a plain function for one that returns a response."""

    routes: McpRoutes
    exposure: Exposure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self.routes.answer(self.exposure, scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Stream:
    """An ASGI application, as `_AsgiEndpoint` is."""

    routes: McpRoutes
    exposure: Exposure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self.routes.stream(self.exposure, scope, receive, send)


def _import() -> None:
    with IMPORTING:
        import_module("toolscript.surfaces.mcp.sdk_server")
        import_module("toolscript.surfaces.mcp.session_stream")
        argument_checks.prepare()
