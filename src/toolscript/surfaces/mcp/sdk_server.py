"""The MCP door in the SDK's words: one low-level server per exposure.

Sessions of the handshake protocols keep what they have chosen, and are told
when their list changes. The protocol of 2026-07-28 has no sessions: its clients
listen for changes by themselves.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeAlias, cast

import anyio
import mcp_types as types
import msgspec
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.methods import serialize_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

from toolscript import __version__
from toolscript.app.application import App, CatalogueState
from toolscript.errors import RefusedError, ToolscriptError
from toolscript.gateway.base import CANNOT_BE_ASKED, Caller
from toolscript.surfaces.mcp.endpoint import Exposure, RequestContext, Session, ToolEndpoint
from toolscript.surfaces.mcp.pending_elicitations import PendingElicitations
from toolscript.surfaces.mcp.prompts_and_resources import PromptsAndResources
from toolscript.surfaces.server.error_codes import codes_of
from toolscript.types import EVERYTHING, Grant

_Raw: TypeAlias = dict[str, Any]
_Context: TypeAlias = ServerRequestContext[Any, Any]
GrantOf: TypeAlias = Callable[[Any], Grant]
"""What the sender of an HTTP request is granted."""
_LISTS: tuple[CacheableMethod, ...] = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
_SESSION = "toolscript.session"
_TELLING_S = 1
"""A client that reads nothing is told no more after this."""
_COMPLETE = {"resultType": "complete"}
"""What the newest protocol asks of every result; the SDK keeps it from the older ones."""
_RESERVED = "io.modelcontextprotocol/"
_INSTRUCTIONS = {
    "search": (
        "This server stands for many others. Their tools are not listed: find them with "
        "search_tools by what they should do, then call them with call_tool."
    ),
    "two-phase": "Find the tools for the task with tool_search first; they are listed then.",
    "all": "This server passes on the tools of many others, as server__tool.",
}


class _Result(RootModel[_Raw]):
    """A client's answer, with every field."""


class _Subscribers:
    """Those who are granted the same: they see the same, and are told when that changes."""

    def __init__(self, listed: list[_Raw]) -> None:
        self.listed = listed
        self.sessions: dict[Connection, ServerSession] = {}
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)

    async def see(self, listed: list[_Raw]) -> None:
        """Tell everybody, unless this is what they have seen already."""
        if listed == self.listed:
            return
        self.listed = listed
        await self._bus.publish(ToolsListChanged())
        async with anyio.create_task_group() as tasks:
            for session in self.sessions.values():
                tasks.start_soon(_tell, session)


async def _tell(session: ServerSession) -> None:
    with anyio.move_on_after(_TELLING_S), suppress(MCPError):
        await session.send_tool_list_changed()


class DoorServer(Server[Any]):
    """A low-level server over a `ToolEndpoint`. `run_beside` runs for as long as it serves."""

    def __init__(self, app: App, exposure: Exposure, grant_of: GrantOf) -> None:
        super().__init__(
            "toolscript",
            version=__version__,
            instructions=_INSTRUCTIONS[exposure],
            cache_hints=dict.fromkeys(_LISTS, CacheHint()),
            on_list_tools=cast("Any", self._list_tools),
            on_call_tool=cast("Any", self._call_tool),
            on_list_prompts=cast("Any", self._list_prompts),
            on_get_prompt=cast("Any", self._get_prompt),
            on_list_resources=cast("Any", self._list_resources),
            on_list_resource_templates=cast("Any", self._list_templates),
            on_read_resource=cast("Any", self._read_resource),
            on_completion=cast("Any", self._complete),
            on_subscriptions_listen=self._listen,
        )
        self._app = app
        self._door = ToolEndpoint(app, exposure)
        self._passed = PromptsAndResources(app)
        self._grant_of = grant_of
        self._audiences: dict[Grant, _Subscribers] = {}
        self._held = PendingElicitations()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, _Raw] | None = None,
        extensions: dict[str, _Raw] | None = None,
    ) -> InitializationOptions:
        """See `Server`: this one does tell when its tools change."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    async def run_beside(self) -> None:
        """Do what goes on between requests, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._held.run)
            tasks.start_soon(self._announce)

    async def _announce(self) -> None:
        """Tell every client when what it can list has changed."""
        seen: CatalogueState | None = None
        while True:
            seen = await self._app.changed(seen)
            for grant, audience in list(self._audiences.items()):
                await audience.see(self._listed(grant))

    def _listed(self, grant: Grant) -> list[_Raw]:
        return self._door.tools(RequestContext(grant=grant))

    def _audience(self, grant: Grant) -> _Subscribers:
        if grant not in self._audiences:
            self._audiences[grant] = _Subscribers(self._listed(grant))
        return self._audiences[grant]

    async def _listen(self, ctx: _Context, params: Any) -> Any:
        return await self._audience(self._grant(ctx)).listen(ctx, params)

    async def _list_tools(self, ctx: _Context, params: Any) -> _Raw:
        del params
        self._remember(ctx)
        tools = fitting(ctx.protocol_version, self._door.tools(self._asker(ctx)))
        return {**_COMPLETE, "tools": tools}

    async def _call_tool(self, ctx: _Context, params: types.CallToolRequestParams) -> _Raw:
        asker = self._asker(ctx)
        chosen = asker.session.chosen
        result = await _told(self._called(ctx, params, asker))
        if asker.session.chosen != chosen:
            # Beside the answer: the list has changed before the client reads it.
            changed = types.ToolListChangedNotification()
            await ctx.session.send_notification(changed, ctx.request_id)
        return result

    def _called(
        self, ctx: _Context, params: types.CallToolRequestParams, asker: RequestContext
    ) -> Awaitable[_Raw]:
        name, arguments = params.name, params.arguments or {}

        def begin(caller: Caller) -> Awaitable[_Raw]:
            return self._door.call(name, arguments, replace(asker, caller=caller))

        if not asker.caller.accepts_input_required or not _has_user(ctx):
            return begin(asker.caller)
        what = name, msgspec.json.encode(arguments, order="sorted"), asker.grant
        return self._held.answer(what, ctx.params or {}, asker.caller, begin)

    async def _list_prompts(self, ctx: _Context, params: Any) -> _Raw:
        del params
        return {**_COMPLETE, "prompts": await self._passed.prompts(self._asker(ctx))}

    async def _get_prompt(self, ctx: _Context, params: types.GetPromptRequestParams) -> _Raw:
        arguments: _Raw = dict(params.arguments or {})
        return await _told(self._passed.prompt(params.name, arguments, self._asker(ctx)))

    async def _list_resources(self, ctx: _Context, params: Any) -> _Raw:
        del params
        return {**_COMPLETE, "resources": await self._passed.resources(self._asker(ctx))}

    async def _list_templates(self, ctx: _Context, params: Any) -> _Raw:
        del params
        templates = await self._passed.templates(self._asker(ctx))
        return {**_COMPLETE, "resourceTemplates": templates}

    async def _read_resource(self, ctx: _Context, params: types.ReadResourceRequestParams) -> _Raw:
        return await _told(self._passed.resource(str(params.uri), self._asker(ctx)))

    async def _complete(self, ctx: _Context, params: types.CompleteRequestParams) -> _Raw:
        raw = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        raw.pop("_meta", None)
        return await _told(self._passed.completion(raw, self._asker(ctx)))

    def _grant(self, ctx: _Context) -> Grant:
        return EVERYTHING if ctx.request is None else self._grant_of(ctx.request)

    def _asker(self, ctx: _Context) -> RequestContext:
        session = _connection(ctx).state.setdefault(_SESSION, Session())
        return RequestContext(
            _Client(ctx), self._grant(ctx), session, _passed_along(ctx.params or {})
        )

    def _remember(self, ctx: _Context) -> None:
        """Whoever has listed is told of changes, for as long as its connection lives."""
        connection, sessions = _connection(ctx), self._audience(self._grant(ctx)).sessions
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or connection in sessions:
            return
        sessions[connection] = ctx.session
        connection.exit_stack.callback(sessions.pop, connection, None)


class _Client:
    """The client behind one request, as a server's `Caller`."""

    def __init__(self, ctx: _Context) -> None:
        self._ctx = ctx
        self.session_key: object = _connection(ctx)
        self.accepts_input_required = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`."""
        await self._ctx.session.report_progress(progress, total, message)

    async def elicit(self, method: str, params: _Raw) -> _Raw:
        """See `Caller`."""
        if not self._ctx.session.can_send_request or not _has_user(self._ctx):
            raise RefusedError("the client behind this call cannot ask its user", CANNOT_BE_ASKED)
        request = cast("Any", types.Request[_Raw, str](method=method, params=params))
        related = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        try:
            answer = await self._ctx.session.send_request(request, _Result, metadata=related)
        except MCPError as error:
            raise RefusedError(error.message, error.code, data=error.data) from None
        return answer.root


def _has_user(ctx: _Context) -> bool:
    """Whether a client says that it can ask its user."""
    able = ctx.session.client_capabilities
    return able is not None and able.elicitation is not None


def _connection(ctx: _Context) -> Connection:
    return ctx.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the SDK has no other name for what several requests have in common


def _passed_along(params: Mapping[str, Any]) -> _Raw:
    """What of a request's parameters is the server's to see, beside name and arguments."""
    more = {key: params[key] for key in ("inputResponses", "requestState") if key in params}
    meta: _Raw = {
        key: value
        for key, value in cast("_Raw", params.get("_meta") or {}).items()
        if key != "progressToken" and not key.startswith(_RESERVED)
    }
    return {**more, "_meta": meta} if meta else more


async def _told(answer: Any) -> Any:
    """The answer, said to be one; an error of ours as one of the protocol's."""
    try:
        return {**_COMPLETE, **await answer}
    except RefusedError as refusal:
        raise MCPError(refusal.code, refusal.said, refusal.data) from None
    except ToolscriptError as problem:
        raise MCPError(codes_of(type(problem)).json_rpc, str(problem)) from None


def fitting(version: str, tools: list[_Raw]) -> list[_Raw]:
    """The tools that this version can list: one that it cannot costs only itself."""
    return tools if _fits(version, tools) else [tool for tool in tools if _fits(version, [tool])]


def _fits(version: str, tools: list[_Raw]) -> bool:
    try:
        hints = {"ttlMs": 0, "cacheScope": "private"}
        serialize_server_result("tools/list", version, {**_COMPLETE, **hints, "tools": tools})
    except ValidationError:
        return False
    return True
