"""The server of MCP on the SDK.

Sessions of the handshake protocols keep the tools that they have chosen, and are notified
when their list changes. The protocol of 2026-07-28 has no sessions: its clients listen
for changes by themselves, and all requests of one stream count as a session.
"""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import anyio
import mcp_types as types
import msgspec
from mcp.server.caching import CACHEABLE_METHODS, CacheHint
from mcp.server.connection import Connection
from mcp.server.context import CallNext, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_loop
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import serialize_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError
from starlette.types import Scope

from toolscript.app.application import App
from toolscript.errors import RefusedError, ToolscriptError
from toolscript.gateway.base import CANNOT_BE_ASKED, Caller
from toolscript.retrieval.live_index import Feed
from toolscript.surfaces.mcp.endpoint import ToolEndpoint
from toolscript.surfaces.mcp.pending_elicitations import PendingElicitations
from toolscript.surfaces.mcp.request_context import (
    EXPOSURE,
    EXPOSURES,
    Exposure,
    RequestContext,
    Session,
)
from toolscript.surfaces.mcp.sessionless import error_fields, mcp_methods
from toolscript.surfaces.mcp.tool_calls import ToolCalls
from toolscript.surfaces.server.audit_log import OWNER
from toolscript.surfaces.server.authentication import grant_of, holder_of, holder_session
from toolscript.surfaces.server.project_header import existing_folder, project_of
from toolscript.surfaces.server.request_log import is_stream
from toolscript.text.wire_constants import APPS, SKILLS_EXTENSION
from toolscript.types import EVERYTHING, Grant
from toolscript.version import __version__

_Raw: TypeAlias = dict[str, Any]
_SdkContext: TypeAlias = ServerRequestContext[Any, Any]
_SESSION = "toolscript.session"
_ROOTS_TIMEOUT_S = 5
_NOTIFY_TIMEOUT_S = 1
"""A client that reads nothing for this long misses a notification."""
_COMPLETE = {"resultType": "complete"}
"""The newest protocol requires this in every result; the SDK removes it for the older ones."""
_RESERVED = "io.modelcontextprotocol/"
_OPENING = {"initialize", "server/discover"}
"""The requests whose answers have instructions for the model."""


class _ClientAnswer(RootModel[_Raw]):
    """A client's answer, with every field."""


class _Subscribers:
    """The clients with one exposure and grant: they see the same tools, and hear of changes."""

    def __init__(self, endpoint: ToolEndpoint, grant: Grant) -> None:
        self._endpoint = endpoint
        self._context = RequestContext(grant=grant)
        """Stands for their requests; in its session they have listed the tools."""
        self._tools = endpoint.tools(self._context)
        self.sessions: dict[Connection, ServerSession] = {}
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._listening = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no such client any more."""
        return not self.sessions and not self._listening

    async def listen(self, ctx: _SdkContext, params: Any) -> Any:
        """Answers ``subscriptions/listen`` for as long as its client listens."""
        self._listening += 1
        try:
            return await self._listen(ctx, params)
        finally:
            self._listening -= 1

    async def update(self) -> None:
        """Notifies every client, if there are other tools than those that it knows."""
        tools = self._endpoint.tools(self._context)
        if tools == self._tools:
            return
        self._tools = tools
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as tasks:
            for session in self.sessions.values():
                tasks.start_soon(self._notify, session)

    @staticmethod
    async def _notify(session: ServerSession) -> None:
        with anyio.move_on_after(_NOTIFY_TIMEOUT_S), suppress(MCPError):
            await session.send_tool_list_changed()


class McpServer(Server[Any]):
    """A low-level server of the `mcp_methods`. `run_background` has to run while it serves.

    Args:
        app: What answers.
        exposure: What a client sees that has started this process; others say it themselves.
        own: The grant of such a client.
    """

    def __init__(self, app: App, exposure: Exposure, own: Grant = EVERYTHING) -> None:
        super().__init__(
            "toolscript",
            version=__version__,
            cache_hints=cast("Any", dict.fromkeys(CACHEABLE_METHODS, CacheHint())),
            on_subscriptions_listen=self._listen,
        )
        self._app = app
        self._own = own
        self._own_exposure: Exposure = exposure
        self._endpoints = {name: ToolEndpoint(app, ToolCalls(app, name)) for name in EXPOSURES}
        self.extensions = {SKILLS_EXTENSION: {}}
        self._methods = {name: mcp_methods(app, each) for name, each in self._endpoints.items()}
        changed, params = "notifications/roots/list_changed", types.NotificationParams
        self.add_notification_handler(changed, params, self._forget_project)
        self.middleware.append(self._instruct)
        for method in self._methods[exposure]:
            self.add_request_handler(method, types.RequestParams, self._answer)
        self._subscribers: dict[tuple[Exposure, Grant], _Subscribers] = {}
        self._own_session = Session()
        """Of the one client that there is without a gateway."""
        self._elicitations = PendingElicitations()

    def create_initialization_options(self, *_: Any, **__: Any) -> InitializationOptions:
        """See `Server`: this one does notify of changed tools."""
        return super().create_initialization_options(NotificationOptions(tools_changed=True))

    async def serve(self, read: Any, write: Any, exposure: Exposure) -> None:
        """Serves one client, whose messages come in streams, until it ends them."""
        if exposure == "two-phase":  # it needs a protocol's version with sessions
            await serve_loop(self, read, write, lifespan_state={})
        else:
            await self.run(read, write, self.create_initialization_options())

    async def _instruct(self, ctx: _SdkContext, call_next: CallNext) -> Any:
        """Adds the instructions, which name the servers that the caller may know.

        Declares extensions, too: skills in the older protocols, whose extensions the SDK leaves
        out, and apps to a client that shows them, and gets some.
        """
        result = await call_next(ctx)
        if ctx.method not in _OPENING:
            return result
        context = RequestContext(grant=self._grant(ctx), session=self._session(ctx))
        opening = cast("_Raw", result)
        capabilities: _Raw = opening["capabilities"]
        extensions: _Raw = capabilities.get("extensions") or {SKILLS_EXTENSION: {}}
        endpoint = self._endpoints[self._exposure(ctx)]
        if APPS in _client_extensions(ctx) and endpoint.has_pages(context):
            extensions = {**extensions, APPS: {}}
        instructions = endpoint.instructions(context)
        capabilities = {**capabilities, "extensions": extensions}
        return {**opening, "capabilities": capabilities, "instructions": instructions}

    async def run_background(self) -> None:
        """Run what goes on between requests, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._elicitations.run)
            for feed in self._app.feeds:
                tasks.start_soon(self._notify_of_changes, feed)

    async def _notify_of_changes(self, feed: Feed[Any]) -> None:
        seen: Any = None
        while True:
            seen = await feed.changed(seen)
            for subscribers in list(self._subscribers.values()):
                await subscribers.update()

    def _subscribers_like(self, ctx: _SdkContext) -> _Subscribers:
        """Returns the subscribers that a client is, or becomes, one of."""
        exposure, grant = key = self._exposure(ctx), self._grant(ctx)
        if key not in self._subscribers:
            self._subscribers[key] = _Subscribers(self._endpoints[exposure], grant)
        return self._subscribers[key]

    async def _listen(self, ctx: _SdkContext, params: Any) -> Any:
        try:
            return await self._subscribers_like(ctx).listen(ctx, params)
        finally:
            self._forget_unused()

    def _forget_unused(self) -> None:
        """Keeps no list of tools that no client has any more."""
        used = {key: each for key, each in self._subscribers.items() if not each.is_empty}
        self._subscribers = used

    async def _answer(self, ctx: _SdkContext, checked: types.RequestParams) -> _Raw:
        """Answer a request from its raw parameters, which the SDK has checked by its version.

        The SDK's models would drop unknown fields.
        """
        del checked
        context = await self._context(ctx)
        params = {key: value for key, value in (ctx.params or {}).items() if value is not None}
        chosen = context.session.chosen
        try:
            result: _Raw = {**_COMPLETE, **await self._call(ctx, params, context)}
        except ToolscriptError as problem:
            raise MCPError(*error_fields(problem)) from None
        if "cacheScope" in result:  # of a server's resource, which not every caller may read
            result["cacheScope"] = "private"
        if ctx.method == "tools/list":
            self._subscribe(ctx)
            result["tools"] = fitting(ctx.protocol_version, result["tools"])
        if context.session.chosen != chosen:
            # Before the answer, so that a client that reads it knows that the list has changed.
            changed = types.ToolListChangedNotification()
            await ctx.session.send_notification(changed, ctx.request_id)
        return result

    def _call(self, ctx: _SdkContext, params: _Raw, context: RequestContext) -> Awaitable[_Raw]:
        method = self._methods[self._exposure(ctx)][ctx.method]
        interactive = context.caller.accepts_input_required and _can_elicit(ctx)
        if ctx.method != "tools/call" or not interactive:
            return method(params, context)

        def begin(caller: Caller) -> Awaitable[_Raw]:
            return method(params, replace(context, caller=caller))

        arguments = msgspec.json.encode(params.get("arguments", {}), order="sorted")
        request = params["name"], arguments, context.grant
        return self._elicitations.answer(request, params, context.caller, begin)

    async def _context(self, ctx: _SdkContext) -> RequestContext:
        session, caller = self._session(ctx), _SdkCaller(ctx)
        if self._app.separates_callers:
            if session.project is None:
                session.project = await _project(ctx)
            caller.project, caller.session_id = session.project, self._session_id(ctx, session)
            self._app.meet(caller)
        request = ctx.request if _is_modern(ctx) and _is_single(ctx) else None
        holder = "" if request is None else holder_of(request)
        return RequestContext(caller, self._grant(ctx), session, _more(ctx.params or {}), holder)

    def _exposure(self, ctx: _SdkContext) -> Exposure:
        return self._own_exposure if ctx.request is None else ctx.request.scope[EXPOSURE]

    def _grant(self, ctx: _SdkContext) -> Grant:
        return self._own if ctx.request is None else grant_of(ctx.request)

    def _session(self, ctx: _SdkContext) -> Session:
        # The SDK has a connection for each request of the newest protocol.
        if not _is_modern(ctx):
            return self._lasting_session(_connection(ctx))
        if ctx.request is None:
            return self._own_session
        return ctx.request.scope.setdefault(_SESSION, Session())

    def _lasting_session(self, connection: Connection) -> Session:
        """Returns the session of a connection that lasts, with which the session ends."""
        session: Session | None = connection.state.get(_SESSION)
        if session is None:
            session = connection.state[_SESSION] = Session()
            connection.exit_stack.callback(self._app.end_session, session.id)
        return session

    @staticmethod
    def _session_id(ctx: _SdkContext, session: Session) -> str:
        """Returns the id of a session that lasts; else one of the holder."""
        is_single = _is_modern(ctx) and _is_single(ctx)
        return holder_session(ctx.request) if is_single and ctx.request else session.id

    def end_stream(self, scope: Scope) -> None:
        """Ends the session of a stream, which has ended: see `App.end_session`."""
        session: Session | None = scope.get(_SESSION)
        if session is not None:
            self._app.end_session(session.id)

    async def _forget_project(self, ctx: _SdkContext, params: Any) -> None:
        del params
        self._session(ctx).project = None

    def _subscribe(self, ctx: _SdkContext) -> None:
        """Notify a client that has listed tools of changes, as long as its connection lives."""
        if _is_modern(ctx):  # such a client listens instead
            return
        connection, sessions = _connection(ctx), self._subscribers_like(ctx).sessions
        if connection in sessions:
            return

        def end() -> None:
            sessions.pop(connection, None)
            self._forget_unused()

        sessions[connection] = ctx.session
        connection.exit_stack.callback(end)


class _SdkCaller:
    """The client of one request, as a server's `Caller`."""

    def __init__(self, ctx: _SdkContext) -> None:
        self._ctx = ctx
        self.session_key: object = _connection(ctx)
        self.session_id = self.project = ""
        self.accepts_input_required = _is_modern(ctx)
        self.may_log_in = _is_owner(ctx)
        reachable = ctx.session.can_send_request or self.accepts_input_required
        self.may_be_asked = reachable and _can_elicit(ctx, form=True)
        asked = _capabilities(ctx).elicitation
        self.opens_addresses = asked is not None and asked.url is not None

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`."""
        await self._ctx.session.report_progress(progress, total, message)

    async def elicit(self, method: str, params: _Raw) -> _Raw:
        """See `Caller`."""
        if not self._ctx.session.can_send_request or not _can_elicit(self._ctx):
            raise RefusedError("the client behind this call cannot ask its user", CANNOT_BE_ASKED)
        request = cast("Any", types.Request[_Raw, str](method=method, params=params))
        related = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        try:
            answer = await self._ctx.session.send_request(request, _ClientAnswer, metadata=related)
        except MCPError as error:
            raise RefusedError(error.message, error.code, error.data) from None
        return answer.root


def _is_modern(ctx: _SdkContext) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _is_single(ctx: _SdkContext) -> bool:
    """Whether a request of the newest protocol came by itself, and not in a stream of them."""
    return ctx.request is not None and not is_stream(ctx.request.url.path)


async def _project(ctx: _SdkContext) -> str:
    """Returns the folder that the client works in: its first root, else what its header names."""
    named = project_of(ctx.request)
    has_roots = _capabilities(ctx).roots and ctx.session.can_send_request
    if not (has_roots and _is_owner(ctx)):
        return named
    try:
        with anyio.fail_after(_ROOTS_TIMEOUT_S):
            request = types.ListRootsRequest()
            roots = (await ctx.session.send_request(request, types.ListRootsResult)).roots
    except (MCPError, TimeoutError):
        return named
    folders = (existing_folder(unquote(urlsplit(str(root.uri)).path)) for root in roots)
    return next(filter(None, folders), named)


def _is_owner(ctx: _SdkContext) -> bool:
    """Whether the client is the owner's: it has the gateway's key, or is of this process."""
    return ctx.request is None or holder_of(ctx.request) == OWNER


def _capabilities(ctx: _SdkContext) -> types.ClientCapabilities:
    return ctx.session.client_capabilities or types.ClientCapabilities()


def _can_elicit(ctx: _SdkContext, *, form: bool = False) -> bool:
    """Whether a client says that it can ask its user; with ``form``, in a form."""
    asked = _capabilities(ctx).elicitation
    return asked is not None and not (form and asked.form is None and asked.url is not None)


def _client_extensions(ctx: _SdkContext) -> Mapping[str, Any]:
    """Returns the extensions that the client declares, or is declaring."""
    if ctx.method == "initialize":
        opening = types.InitializeRequestParams.model_validate(ctx.params)
        return opening.capabilities.extensions or {}
    return _capabilities(ctx).extensions or {}


def _connection(ctx: _SdkContext) -> Connection:
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the SDK has no other name for what several requests have in common


def _more(params: Mapping[str, Any]) -> _Raw:
    """Returns the parameters that a server sees beside name and arguments."""
    more = {key: params[key] for key in ("inputResponses", "requestState") if key in params}
    meta: _Raw = {
        key: value
        for key, value in cast("_Raw", params.get("_meta") or {}).items()
        if key != "progressToken" and not key.startswith(_RESERVED)
    }
    return {**more, "_meta": meta} if meta else more


def fitting(version: str, tools: list[_Raw]) -> list[_Raw]:
    """Returns the tools that a protocol's version can list; another one is left out alone."""
    return tools if _fits(version, tools) else [tool for tool in tools if _fits(version, [tool])]


def _fits(version: str, tools: list[_Raw]) -> bool:
    try:
        hints = {"ttlMs": 0, "cacheScope": "private"}
        serialize_server_result("tools/list", version, {**_COMPLETE, **hints, "tools": tools})
    except ValidationError:
        return False
    return True
