"""The HTTP routes of MCP.

``/mcp`` has the exposure of the settings, ``/mcp/search``, ``/mcp/two-phase``
and ``/mcp/all`` their own. The SDK is imported in a thread once skills can be
searched, or the first request comes: that takes most of a second, in which Python does
little else.
"""

import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable
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
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from toolscript.app import argument_checks
from toolscript.app.application import App
from toolscript.gateway.base import IMPORTING
from toolscript.surfaces.mcp.endpoint import EXPOSURES, Exposure
from toolscript.surfaces.mcp.session_ids import (
    FOREIGN,
    ForeignSession,
    ForeignSessions,
    Message,
    SessionId,
    SessionIds,
)
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
_CALL, _LIST = "tools/call", "tools/list"
_OK = 200
_WITHOUT_STATE: tuple[Exposure, ...] = ("search", "all")
"""The exposures that show every session of a caller the same."""


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
        self._sessions = SessionLimit(self._end_soon, revocations, max_sessions)
        self._ids = ids
        self._url_of = url_of
        """Returns the address of another replica that lives; None without other replicas."""
        self._foreign = ForeignSessions(app.end_session)
        self._idle_s = idle_s
        self._tasks: TaskGroup | None = None
        self.exposure: Exposure = exposure
        self._managers: dict[Exposure, StreamableHTTPSessionManager] = {}
        self._stateless: dict[Exposure, StreamableHTTPSessionManager] = {}
        """Answer requests of sessions that do not live here."""
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
        # Clients that are redirected to the path without a slash drop their body or token.
        places.extend([(f"{place}/", name) for place, name in places])
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
        version, identifier = headers.get(_VERSION_HEADER), headers.get(_SESSION_HEADER)
        session = self._sessions.find(identifier or "")
        if version and version not in self._versions:
            await self._answer_newest(version, exposure, scope, receive, send)
        elif identifier is None:
            await self._open(exposure, scope, receive, send)
        elif session is None:
            await self._answer_foreign(identifier, exposure, scope, receive, send)
        elif not session.is_for(exposure, holder_of(HTTPConnection(scope))):
            await _not_found(scope, receive, send)
        else:
            if self._url_of is not None:
                body = await _Body.of(scope, receive)
                if await self._read_elsewhere(body, scope, send):
                    return
                receive = body.receive
            with self._sessions.using(session):
                scope = {**scope, "headers": _renamed(headers.raw, session.sdk_identifier)}
                send = _sending(send, session.identifier)
                await self._managers[exposure].handle_request(scope, receive, send)
            if scope["method"] == "DELETE":
                self._sessions.finish(session)  # even if the SDK has refused

    async def _answer_newest(
        self, version: str, exposure: Exposure, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a version that has no sessions, or of one that does not exist."""
        body = await _Body.of(scope, receive)
        replica, receive = body.message.waits_in if body.message else "", body.receive
        if exposure == "two-phase":
            # As the protocol has it: the client continues with a version that has sessions.
            data = {"supported": sorted(self._versions), "requested": version}
            refusal = json_rpc_error(None, _UNSUPPORTED, "two phases need a session", data)
            await json_response(refusal, 400)(scope, receive, send)
        elif await self._read_elsewhere(body, scope, send):
            return
        elif not (replica and await self._forwarded(replica, body, scope, send)):
            await self._managers[exposure].handle_request(scope, receive, send)

    async def _read_elsewhere(self, body: "_Body", scope: Scope, send: Send) -> bool:
        """Whether a request reads a result that another replica keeps, which has answered it."""
        replica = body.message.kept_in if body.message else ""
        return bool(replica) and await self._forwarded(replica, body, scope, send)

    async def _forwarded(self, replica: str, body: "_Body", scope: Scope, send: Send) -> bool:
        """Whether another replica was reached, and has answered the request."""
        if self._url_of is None or replica == self._ids.replica:
            return False
        from toolscript.surfaces.mcp import session_forwarding  # noqa: PLC0415 - replicas only

        url = self._url_of(replica)
        if url is None or session_forwarding.is_forwarded(scope):
            return False
        return await session_forwarding.forward(url, body.content, scope, body.rest, send)

    async def _open(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request without a session, which is to open one."""
        body = await _Body.of(scope, receive)
        message = body.message

        async def send_sealed(answer: AsgiMessage) -> None:
            if answer["type"] == "http.response.start" and answer["status"] == _OK:
                opened = Headers(raw=answer.get("headers", [])).get(_SESSION_HEADER)
                if opened is not None:
                    holder = holder_of(HTTPConnection(scope))
                    asks_user = message is not None and message.asks_user
                    sealed = self._ids.issue(exposure, holder, asks_user=asks_user)
                    self._sessions.add(OpenSession(sealed, opened, exposure, holder))
                    answer["headers"] = _renamed(answer["headers"], sealed)
            await send(answer)

        await self._managers[exposure].handle_request(scope, body.receive, send_sealed)

    async def _answer_foreign(
        self, identifier: str, exposure: Exposure, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a session that does not live here, as far as it needs no session.

        It lives in another gateway, or lived in one that has ended. The client begins a new one
        where it has ended, is another caller's, or is needed.
        """
        known = self._ids.read(identifier)
        body = await _Body.of(scope, receive)
        message, receive = body.message, body.receive
        is_callers = known is not None and known.is_for(exposure, holder_of(HTTPConnection(scope)))
        has_ended = known is not None and known.replica == self._ids.replica
        if known is None or has_ended or not is_callers:
            await _not_found(scope, receive, send)
        elif self._needs_connection(exposure, scope, message):
            if not await self._forwarded(known.replica, body, scope, send):
                await _not_found(scope, receive, send)
        elif await self._read_elsewhere(body, scope, send):
            return
        elif not (
            self._is_better_at_home(known, scope, message)
            and not (message is not None and message.kept_in == self._ids.replica)
            and await self._forwarded(known.replica, body, scope, send)
        ):
            foreign = ForeignSession(self._foreign.get(identifier), known.asks_user)
            headers = _renamed(scope["headers"], None)
            scope = {**scope, "headers": headers, FOREIGN: foreign}
            await self._stateless[exposure].handle_request(scope, receive, send)

    def _needs_connection(self, exposure: Exposure, scope: Scope, message: Message | None) -> bool:
        """Whether a request can only be answered where its session lives.

        That is so for a stream of what the server says, for the answer to a question of the
        server's, for the second of two phases, and for servers that have an instance per session
        or project.
        """
        is_answer = message is not None and not message.method
        stateful = exposure not in self._stateless or self._app.separates_callers
        return scope["method"] == "GET" or is_answer or stateful

    @staticmethod
    def _is_better_at_home(known: SessionId, scope: Scope, message: Message | None) -> bool:
        """Whether a request is better answered where its session lives, while that is alive.

        There it ends the session, can ask its user, or learns that its client wants to hear of
        changes of the tools that it lists.
        """
        method = message.method if message is not None else ""
        is_call = known.asks_user and method == _CALL
        return scope["method"] == "DELETE" or method == _LIST or is_call

    async def stream(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a session that is one HTTP request; see `SessionStream`."""
        self._stats.streams += 1  # before it waits: a gateway that is still starting is not idle
        try:
            self._due.set()
            await self._ready.wait()
            from toolscript.surfaces.mcp.session_stream import (  # noqa: PLC0415 - the SDK
                SessionStream,
            )

            stream = SessionStream(scope, receive, send, self._stats)
            holder, name = holder_of(HTTPConnection(scope)), f"stream-{secrets.token_hex(8)}"
            session = OpenSession(name, "", exposure, holder, requests=1, close=stream.end)
            self._sessions.add(session)
            try:
                await stream.answer(self._servers[exposure], exposure)
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
        """End a session as its client would, which cancels its requests."""
        header = (_SESSION_HEADER.encode(), session.sdk_identifier.encode())
        scope: Scope = {"type": "http", "method": "DELETE", "path": PATH, "headers": [header]}

        async def receive() -> AsgiMessage:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: AsgiMessage) -> None:
            del message

        try:
            await self._managers[session.exposure].handle_request(scope, receive, send)
        except Exception:
            # A boundary: whatever is wrong with one session, the others go on.
            log.exception("a session could not be ended")

    async def _import_after_skills(self) -> None:
        await self._app.skills().settle()
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
            self._servers = {
                name: McpServer(
                    self._app, name, replica=self._ids.replica, is_alone=self._url_of is None
                )
                for name in EXPOSURES
            }
            for name, server in self._servers.items():
                # The SDK's own guard of origins is off: ours stands before every route.
                manager = StreamableHTTPSessionManager(server, session_idle_timeout=self._idle_s)
                await stack.enter_async_context(manager.run())
                self._managers[name] = manager
            for name in _WITHOUT_STATE:
                manager = StreamableHTTPSessionManager(self._servers[name], stateless=True)
                await stack.enter_async_context(manager.run())
                self._stateless[name] = manager
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


class _Body:
    """The body of a request, which `BodyLimit` bounds, and its message; empty but for a POST."""

    def __init__(self, content: bytes, rest: Receive, *, is_post: bool) -> None:
        self.content = content
        self.rest = rest
        """Receives what comes after it."""
        self.message = Message.of(content) if is_post else None
        self._sent = not is_post

    @classmethod
    async def of(cls, scope: Scope, receive: Receive) -> "_Body":
        """Reads the body of a POST."""
        is_post = scope["method"] == "POST"
        content, more = bytearray(), is_post
        while more:
            part = await receive()
            content += part.get("body", b"")
            more = part.get("more_body", False)
        return cls(bytes(content), receive, is_post=is_post)

    async def receive(self) -> AsgiMessage:
        """Receives the body once more."""
        if self._sent:
            return await self.rest()
        self._sent = True
        return {"type": "http.request", "body": self.content, "more_body": False}


def _renamed(
    headers: Iterable[tuple[bytes, bytes]], identifier: str | None
) -> list[tuple[bytes, bytes]]:
    """Returns the headers with another session id; None removes it."""
    name = _SESSION_HEADER.encode()
    others = [(key, value) for key, value in headers if key.lower() != name]
    return others if identifier is None else [*others, (name, identifier.encode())]


def _sending(send: Send, identifier: str) -> Send:
    """Returns what sends a session's answers under the id that its client knows."""

    async def renamed(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = _renamed(message.get("headers", []), identifier)
        await send(message)

    return renamed


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer as the SDK does for a session that does not exist: the client opens another."""
    refusal = json_rpc_error(None, INVALID_REQUEST, "Session not found")
    await json_response(refusal, 404)(scope, receive, send)


def _import() -> None:
    with IMPORTING:
        import_module("toolscript.surfaces.mcp.sdk_server")
        import_module("toolscript.surfaces.mcp.session_stream")
        argument_checks.prepare()
