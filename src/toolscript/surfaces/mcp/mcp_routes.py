"""The MCP door at its HTTP addresses.

``/mcp`` has the exposure of the settings, ``/mcp/search``, ``/mcp/two-phase``
and ``/mcp/all`` their own. The SDK is imported in a thread once skills can be
searched, or somebody asks: that takes most of a second, in which Python does
little else.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from toolscript.app import argument_checks as arguments
from toolscript.app.application import App, first_of
from toolscript.gateway.base import IMPORTING
from toolscript.surfaces.mcp.endpoint import EXPOSURES, Exposure
from toolscript.surfaces.mcp.session_limit import IDLE_S, MAX_SESSIONS, OpenSession, SessionLimit
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher
from toolscript.types import Grant

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

log = logging.getLogger(__name__)
PATH = "/mcp"
PATIENCE_S = 5.0
"""So long the import waits for many skills."""
_VERSION_HEADER, _SESSION_HEADER = "mcp-protocol-version", "mcp-session-id"
_UNSUPPORTED, _INVALID_REQUEST = -32022, -32600
_OK = 200


class Mount:
    """One session manager for each exposure. Serves while `running` runs; earlier requests wait.

    ``holder_of`` tells in whose name a request comes. Sessions are their holder's
    alone, and end when ``revocations`` says so.
    """

    def __init__(  # noqa: PLR0913 - what it has to know of requests, and the bounds of sessions
        self,
        app: App,
        exposure: Exposure,
        grant_of: Callable[[HTTPConnection], Grant],
        holder_of: Callable[[HTTPConnection], str],
        revocations: RevocationWatcher,
        *,
        max_sessions: int = MAX_SESSIONS,
        idle_s: float = IDLE_S,
    ) -> None:
        self._app = app
        self._grant_of = grant_of
        self._holder_of = holder_of
        self._sessions = SessionLimit(self._end_soon, revocations, max_sessions)
        self._idle_s = idle_s
        self._tasks: TaskGroup | None = None
        self.exposure: Exposure = exposure
        self._managers: dict[Exposure, StreamableHTTPSessionManager] = {}
        self._older: frozenset[str] = frozenset()
        self._asked = anyio.Event()
        self._ready = anyio.Event()

    @property
    def routes(self) -> list[Route]:
        """The addresses, each answered by its exposure."""
        own = [Route(f"{PATH}/{name}", _Endpoint(self, name)) for name in EXPOSURES]
        return [Route(PATH, _Endpoint(self, self.exposure)), *own]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve for as long as the block lasts; then end every session."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._app.task_monitor.run, "mcp", self._serve)
            try:
                yield
            finally:
                self._tasks.cancel_scope.cancel()

    async def answer(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        self._asked.set()
        await self._ready.wait()
        if exposure == "two-phase" and (newer := self._newer(scope)):
            await self._refusal(newer)(scope, receive, send)
            return
        session = self._sessions.find(Headers(scope=scope).get(_SESSION_HEADER, ""))
        if session is None:
            await self._answer_without(exposure, scope, receive, send)
        elif not session.is_for(exposure, self._holder_of(HTTPConnection(scope))):
            await _unknown()(scope, receive, send)
        else:
            with self._sessions.using(session):
                await self._managers[exposure].handle_request(scope, receive, send)
            if scope["method"] == "DELETE":
                self._sessions.finish(session)  # which the SDK may have refused

    async def _answer_without(
        self, exposure: Exposure, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request without a session, or which opens one."""

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == _OK:
                opened = Headers(raw=message.get("headers", [])).get(_SESSION_HEADER)
                if opened is not None:
                    holder = self._holder_of(HTTPConnection(scope))
                    self._sessions.add(OpenSession(opened, exposure, holder))
            await send(message)

        await self._managers[exposure].handle_request(scope, receive, noted)

    def _end_soon(self, session: OpenSession) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(self._end, session)

    async def _end(self, session: OpenSession) -> None:
        """End a session as its client would: what is under way in it is cancelled."""
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

    async def _serve(self) -> None:
        await self._let_skills_pass()
        await anyio.to_thread.run_sync(self._import)
        from toolscript.surfaces.mcp.sdk_server import DoorServer  # noqa: PLC0415 - imported by now

        servers: dict[Exposure, DoorServer] = {
            name: DoorServer(self._app, name, self._grant_of) for name in EXPOSURES
        }
        async with AsyncExitStack() as stack:
            for name, server in servers.items():
                self._managers[name] = _manager(server, self._idle_s)
                await stack.enter_async_context(self._managers[name].run())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            for server in servers.values():
                tasks.start_soon(server.run_beside)
            self._ready.set()

    async def _let_skills_pass(self) -> None:
        with anyio.move_on_after(PATIENCE_S):
            await first_of(self._asked.wait, self._app.skill_service.settled)

    def _import(self) -> None:
        with IMPORTING:
            import_module("toolscript.surfaces.mcp.sdk_server")
            arguments.prepare()
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415 - see the module

        self._older = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)

    def _newer(self, scope: Scope) -> str:
        """The version that a request is of, where that has no sessions."""
        stated = Headers(scope=scope).get(_VERSION_HEADER, "")
        return "" if stated in self._older else stated

    def _refusal(self, version: str) -> Response:
        """As the protocol has it: the client goes on with a version that has sessions."""
        data = {"supported": sorted(self._older), "requested": version}
        problem = {"code": _UNSUPPORTED, "message": "two phases need a session", "data": data}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem})
        return Response(body, 400, media_type="application/json")


class _Endpoint:
    """An ASGI application: a plain function would be taken for one that returns its answer."""

    def __init__(self, mount: Mount, exposure: Exposure) -> None:
        self._mount = mount
        self._exposure: Exposure = exposure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self._mount.answer(self._exposure, scope, receive, send)


def _unknown() -> Response:
    """As the SDK answers for a session that is not there."""
    problem = {"code": _INVALID_REQUEST, "message": "Session not found"}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem})
    return Response(body, 404, media_type="application/json")


def _manager(server: object, idle_s: float) -> "StreamableHTTPSessionManager":
    from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - see the module
        StreamableHTTPSessionManager,
    )

    # No guard of its own: ours stands before every route.
    return StreamableHTTPSessionManager(
        app=server,  # pyright: ignore[reportArgumentType] - a Server
        session_idle_timeout=idle_s,
    )
