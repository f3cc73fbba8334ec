"""Decides who answers a request of MCP: this gateway's session, another gateway, or nobody.

| the request | who answers |
|---|---|
| of a version without sessions, or of one that does not exist | the SDK, without a session |
| without the id of a session | the SDK, which opens one |
| with the id of a session that lives here | that session, if it is its holder's |
| with an id that another gateway issued | that one for what needs the session, else the SDK here |
| that names a result which another gateway keeps | that gateway |
| anything else | nobody: the client opens another session |
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import Message as AsgiMessage
from starlette.types import Receive, Scope, Send

from toolscript.app.application import App
from toolscript.errors import InputError
from toolscript.surfaces.mcp.late_import import LateServers
from toolscript.surfaces.mcp.request_context import Exposure
from toolscript.surfaces.mcp.session_ids import (
    FOREIGN,
    ForeignSession,
    LatestSessions,
    Message,
    SessionId,
    SessionIds,
    replica_of_results,
)
from toolscript.surfaces.mcp.session_limit import OpenSession, SessionLimit
from toolscript.surfaces.mcp.sessionless import INVALID_REQUEST, json_rpc_error
from toolscript.surfaces.server.authentication import holder_of
from toolscript.surfaces.server.error_answers import json_response

_VERSION_HEADER, SESSION_HEADER = "mcp-protocol-version", "mcp-session-id"
_UNSUPPORTED = -32022
_CALL, _LIST = "tools/call", "tools/list"
_OK = 200


@dataclass(frozen=True, slots=True)
class McpRequest:
    """An HTTP request of MCP, as ASGI has it."""

    exposure: Exposure
    scope: Scope
    receive: Receive
    send: Send

    @property
    def holder(self) -> str:
        """Who makes the request."""
        return holder_of(HTTPConnection(self.scope))

    async def refuse(self, error: object, status: int) -> None:
        """Answers with a JSON-RPC error."""
        await json_response(error, status)(self.scope, self.receive, self.send)

    async def refuse_session(self) -> None:
        """Answers as the SDK does for a session that does not exist: the client opens another."""
        await self.refuse(json_rpc_error(None, INVALID_REQUEST, "Session not found"), 404)


class SessionDispatch:
    """Sends each request to whoever answers it.

    Args:
        app: Says whether servers have instances of their own for sessions.
        late: The servers of the SDK.
        sessions: The sessions that live here.
        ids: Makes and reads their ids.
        url_of: Returns the address of another replica that lives; None without other replicas.
    """

    def __init__(
        self,
        app: App,
        late: LateServers,
        sessions: SessionLimit,
        ids: SessionIds,
        url_of: Callable[[str], str | None] | None,
    ) -> None:
        self._app = app
        self._late = late
        self._sessions = sessions
        self._ids = ids
        self._url_of = url_of
        self._foreign = LatestSessions(app.end_session)

    async def answer(self, request: McpRequest) -> None:
        """Answers one HTTP request."""
        await self._late.wait()
        try:
            body = await _Body.of(request)
        except InputError as problem:
            await request.refuse(json_rpc_error(None, INVALID_REQUEST, str(problem)), 400)
            return
        headers = Headers(scope=request.scope)
        version, identifier = headers.get(_VERSION_HEADER), headers.get(SESSION_HEADER)
        session = self._sessions.find(identifier or "")
        if version and version not in self._late.versions:
            await self._answer_newest(version, body, request)
        elif identifier is None:
            await self._open(body, request)
        elif session is None:
            await self._answer_foreign(identifier, body, request)
        elif not session.is_for(request.exposure, request.holder):
            await request.refuse_session()
        else:
            await self._answer_own(session, body, request)

    async def _answer_newest(self, version: str, body: "_Body", request: McpRequest) -> None:
        """Answers a request of a version that has no sessions, or of one that does not exist."""
        replica = body.message.waits_in if body.message else ""
        if request.exposure == "two-phase":
            # As the protocol has it: the client continues with a version that has sessions.
            data = {"supported": sorted(self._late.versions), "requested": version}
            error = json_rpc_error(None, _UNSUPPORTED, "two phases need a session", data)
            await request.refuse(error, 400)
        elif await self._read_elsewhere(body, request):
            return
        elif not (replica and await self._forward(replica, body, request)):
            manager = self._late.managers[request.exposure]
            await manager.handle_request(request.scope, body.receive, request.send)

    async def _answer_own(self, session: OpenSession, body: "_Body", request: McpRequest) -> None:
        """Answers a request of a session that lives here."""
        scope = request.scope
        if await self._read_elsewhere(body, request):
            return
        with self._sessions.using(session):
            headers = rename_session(Headers(scope=scope).raw, session.sdk_identifier)
            send = _sending(request.send, session.identifier)
            manager = self._late.managers[request.exposure]
            await manager.handle_request({**scope, "headers": headers}, body.receive, send)
        if scope["method"] == "DELETE":
            self._sessions.finish(session)  # even if the SDK has refused

    async def _open(self, body: "_Body", request: McpRequest) -> None:
        """Answers a request without a session, which is to open one."""
        message, exposure = body.message, request.exposure

        async def send_sealed(answer: AsgiMessage) -> None:
            if answer["type"] == "http.response.start" and answer["status"] == _OK:
                opened = Headers(raw=answer.get("headers", [])).get(SESSION_HEADER)
                if opened is not None:
                    holder = request.holder
                    asks_user = message is not None and message.asks_user
                    sealed = self._ids.issue(exposure, holder, asks_user=asks_user)
                    self._sessions.add(OpenSession(sealed, opened, exposure, holder))
                    answer["headers"] = rename_session(answer["headers"], sealed)
            await request.send(answer)

        manager = self._late.managers[exposure]
        await manager.handle_request(request.scope, body.receive, send_sealed)

    async def _answer_foreign(self, identifier: str, body: "_Body", request: McpRequest) -> None:
        """Answers a request of a session that does not live here, as far as it needs no session.

        It lives in another gateway, or lived in one that has ended. The client begins a new one
        if it has ended, is another caller's, or is needed.
        """
        session = self._ids.read(identifier)
        if (
            session is None
            or session.replica == self._ids.replica  # it has ended
            or not session.is_for(request.exposure, request.holder)
        ):
            await request.refuse_session()
        elif self._needs_connection(request, body.message):
            if not await self._forward(session.replica, body, request):
                await request.refuse_session()
        elif await self._read_elsewhere(body, request):
            return
        elif not (
            self._is_better_at_home(session, request.scope, body)
            and await self._forward(session.replica, body, request)
        ):
            foreign = ForeignSession(self._foreign.get(identifier), session.asks_user)
            headers = rename_session(request.scope["headers"], None)
            scope = {**request.scope, "headers": headers, FOREIGN: foreign}
            manager = self._late.stateless[request.exposure]
            await manager.handle_request(scope, body.receive, request.send)

    async def _read_elsewhere(self, body: "_Body", request: McpRequest) -> bool:
        """Whether a request names a result that another replica keeps, which has answered it."""
        replica = body.holds_results if self._url_of is not None else ""
        return bool(replica) and await self._forward(replica, body, request)

    async def _forward(self, replica: str, body: "_Body", request: McpRequest) -> bool:
        """Whether another replica was reached, and has answered the request."""
        if self._url_of is None or replica == self._ids.replica:
            return False
        from toolscript.surfaces.mcp import session_forwarding  # noqa: PLC0415 - replicas only

        url, scope = self._url_of(replica), request.scope
        if url is None or session_forwarding.is_forwarded(scope):
            return False
        return await session_forwarding.forward(url, body.content, scope, body.rest, request.send)

    def _needs_connection(self, request: McpRequest, message: Message | None) -> bool:
        """Whether only the gateway of its session can answer a request.

        That is so for a stream of what the server says, for the answer to a question of the
        server's, for the second of two phases, and for servers that have an instance per session
        or project.
        """
        is_answer = message is not None and not message.method
        stateful = request.exposure not in self._late.stateless or self._app.separates_callers
        return request.scope["method"] == "GET" or is_answer or stateful

    def _is_better_at_home(self, session: SessionId, scope: Scope, body: "_Body") -> bool:
        """Whether the gateway of its session answers a request better, while that is alive.

        There it ends the session, can ask its user, or learns that its client wants to hear of
        changes of the tools that it lists. Only a result that is kept here is read here.
        """
        if body.holds_results == self._ids.replica:
            return False
        method = body.message.method if body.message else ""
        is_call = session.asks_user and method == _CALL
        return scope["method"] == "DELETE" or method == _LIST or is_call


class _Body:
    """The body of a request, which `BodyLimit` bounds, and its message; empty but for a POST."""

    def __init__(self, content: bytes, rest: Receive, *, is_post: bool) -> None:
        self.content = content
        self.rest = rest
        """Receives what comes after it."""
        self.message = Message.of(content) if is_post else None
        self._sent = not is_post

    @cached_property
    def holds_results(self) -> str:
        """The replica with the stored results that it names; empty for none."""
        return replica_of_results(self.content)

    @classmethod
    async def of(cls, request: McpRequest) -> "_Body":
        """Reads the body of a POST; raises `InputError` for other JSON than a message."""
        is_post = request.scope["method"] == "POST"
        content, more = bytearray(), is_post
        while more:
            part = await request.receive()
            content += part.get("body", b"")
            more = part.get("more_body", False)
        return cls(bytes(content), request.receive, is_post=is_post)

    async def receive(self) -> AsgiMessage:
        """Receives the body once more."""
        if self._sent:
            return await self.rest()
        self._sent = True
        return {"type": "http.request", "body": self.content, "more_body": False}


def rename_session(
    headers: Iterable[tuple[bytes, bytes]], identifier: str | None
) -> list[tuple[bytes, bytes]]:
    """Returns the headers with another session id; None removes it."""
    name = SESSION_HEADER.encode()
    others = [(key, value) for key, value in headers if key.lower() != name]
    return others if identifier is None else [*others, (name, identifier.encode())]


def _sending(send: Send, identifier: str) -> Send:
    """Returns a function that sends a session's answers under the id that its client knows."""

    async def rename(message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = rename_session(message.get("headers", []), identifier)
        await send(message)

    return rename
