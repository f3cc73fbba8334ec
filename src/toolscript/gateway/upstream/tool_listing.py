"""Listing a server's tools so that one bad tool costs only itself."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, cast

import anyio.lowlevel
import mcp_types
import msgspec
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import BaseModel, ValidationError

from toolscript.errors import UpstreamError
from toolscript.gateway.jsonrpc_reader import Unparsed, aside
from toolscript.gateway.raw_results import RawResult, UnreadableError, opened
from toolscript.text import deceptive_name, printable
from toolscript.types import ServerSpec, ToolSpec

MAX_PAGES = 1000
MAX_TOOLS = 20_000
MAX_NAME_CHARS, MAX_TITLE_CHARS, MAX_DESCRIPTION_CHARS = 128, 1024, 64 * 1024
MAX_SCHEMA_BYTES, MAX_ANNOTATIONS_BYTES = 256 * 1024, 16 * 1024
MAX_DEPTH = 128
"""How deep a schema may nest."""
MAX_TOOL_BYTES = 2 * MAX_SCHEMA_BYTES + MAX_DESCRIPTION_CHARS + 64 * 1024
MAX_SERVER_BYTES = 16 * 1024 * 1024
"""All tools of one server together, as JSON."""
_MAX_COMMAS = 500_000
"""In one page of a listing: no more entries than that are looked at."""
_MAX_FIELD_BYTES = 4096
"""Of what a page says beside its tools."""
_UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)


class _RawListing(BaseModel):
    """A listing whose tools keep every field, those the SDK does not know included."""

    tools: list[dict[str, Any]]
    nextCursor: str | None = None  # noqa: N815 - as on the wire


class _Named(msgspec.Struct):
    name: str


class PassedResultError(Exception):
    """Not a failure: the way of a result past a session that would take too long with it."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("a large result")
        self.result = result


class ListingDispatcher(JSONRPCDispatcher[Any]):
    """A dispatcher that takes invalid tools out of a listing before the session sees it.

    The session checks an answer as a whole, so one malformed tool would cost
    all the others. It also says when the connection has ended.
    """

    def __init__(
        self,
        read: Any,
        write: Any,
        *,
        on_closed: Callable[[], None],
        taken: Callable[[dict[str, Any]], Any],
    ) -> None:
        super().__init__(read, write)
        self._taken = taken
        self._on_closed = on_closed
        self.closed = False
        self.version = LATEST_HANDSHAKE_VERSION
        self.rejected: list[str] = []

    async def run(
        self,
        on_request: Any,
        on_notify: Any,
        on_notify_intercept: Any = None,
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """See `JSONRPCDispatcher.run`."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.closed = True
            self._on_closed()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """See `JSONRPCDispatcher.send_raw_request`."""
        raw: Any = await super().send_raw_request(method, params, opts, **options)
        raw = raw if isinstance(raw, Unparsed) else self._taken(raw)
        if isinstance(raw, Unparsed):
            return await self._opened(method, raw)
        return self._salvaged(raw) if method == "tools/list" else raw

    async def _opened(self, method: str, raw: Unparsed) -> dict[str, Any]:
        """Open a result that the SDK did not read, or carry it past the session as it is."""
        if method == "tools/list" and raw.text:
            raise PassedResultError(await self._page(raw.text))
        if raw.problem:
            raise UnreadableError(f"sent an answer that cannot be read: {raw.problem}")
        if method == "tools/call":
            passed = await aside(RawResult, raw.text)
            if passed.get("resultType") != "input_required":
                raise PassedResultError(passed)
        return await aside(opened, raw.text)

    async def _page(self, text: bytes) -> dict[str, Any]:
        """Read a page of a listing tool by tool, with time for others in between."""
        if text.count(b",") > _MAX_COMMAS:
            raise UnreadableError("lists too much at once; it should list its tools by pages")
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        tools = msgspec.json.decode(fields.pop("tools", msgspec.Raw(b"[]")), type=list[msgspec.Raw])
        small = {k: v for k, v in fields.items() if len(v) <= _MAX_FIELD_BYTES}
        rest = {key: msgspec.json.decode(value) for key, value in small.items()}
        page: dict[str, Any] = {**rest, "tools": []}
        for tool in tools:
            page["tools"] += self._read(tool, rest)
            await anyio.lowlevel.checkpoint()
        return page

    def _read(self, raw: msgspec.Raw, rest: Mapping[str, Any]) -> list[Any]:
        """Read one tool; none where it is of no use."""
        if len(raw) > MAX_TOOL_BYTES:
            problem = f"it has {len(raw)} bytes; at most {MAX_TOOL_BYTES} are read"
        else:
            try:
                return self._salvaged({**rest, "tools": [msgspec.json.decode(raw)]})["tools"]
            except _UNREADABLE as error:
                problem = f"it cannot be read: {error}"
        with suppress(*_UNREADABLE):
            named = {"name": msgspec.json.decode(raw, type=_Named).name}
            self.rejected.append(f"{_name_of(named)}: {problem}")
            return []
        self.rejected.append(f"{_name_of(None)}: {problem}")
        return []

    def _salvaged(self, raw: dict[str, Any]) -> dict[str, Any]:
        if self._problem(raw) is None or not isinstance(raw.get("tools"), list):
            return raw
        kept: list[Any] = []
        for tool in cast("list[Any]", raw["tools"]):
            problem = self._problem({**raw, "tools": [tool]})
            if problem is None:
                kept.append(tool)
            else:
                self.rejected.append(f"{_name_of(tool)}: {problem}")
        return {**raw, "tools": kept}

    def _problem(self, raw: dict[str, Any]) -> str | None:
        try:
            validate_server_result("tools/list", self.version, raw)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"][2:]) or "the entry"
            return f"{where}: {first['msg']}"
        except KeyError:
            return None
        return None


def _name_of(tool: Any) -> str:
    name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return printable(str(name), 80) if name else "a tool without a name"


async def list_tools(
    session: ClientSession, dispatcher: ListingDispatcher, spec: ServerSpec
) -> tuple[tuple[ToolSpec, ...], tuple[str, ...]]:
    """The server's usable tools, as its configuration filters them, and what was rejected."""
    dispatcher.rejected.clear()
    tools: dict[str, ToolSpec] = {}
    rejected: list[str] = []
    room = MAX_SERVER_BYTES
    async for raw in _entries(session):
        tool = _tool(spec.name, raw)
        size, problem = _measured(tool)
        if tool.name in tools:
            problem = "listed twice; the first is kept"
        elif not problem and size > room:
            problem = f"past the {MAX_SERVER_BYTES // 2**20} MiB that one server may list"
        if problem:
            rejected.append(f"{_name_of(raw)}: {problem}")
        else:
            room -= size
            tools[tool.name] = tool
    rejected += _unmatched(spec, tools)
    kept = tuple(tool for name, tool in tools.items() if spec.offers(name))
    return kept, (*dispatcher.rejected, *rejected)


def _measured(tool: ToolSpec) -> tuple[int, str]:
    """How many bytes a tool takes as JSON, and what about it is past a bound."""
    if not tool.name.strip() or not tool.name.isprintable():
        return 0, "the name is empty or cannot be shown"
    lengths = {
        "name": (len(tool.name), MAX_NAME_CHARS, "characters"),
        "title": (len(tool.title), MAX_TITLE_CHARS, "characters"),
        "description": (len(tool.description), MAX_DESCRIPTION_CHARS, "characters"),
        "input schema": (_size(tool.input_schema), MAX_SCHEMA_BYTES, "bytes"),
        "output schema": (_size(tool.output_schema), MAX_SCHEMA_BYTES, "bytes"),
        "annotations": (_size(tool.annotations), MAX_ANNOTATIONS_BYTES, "bytes"),
    }
    for what, (length, most, unit) in lengths.items():
        if length > most:
            return 0, f"the {what} has {length} {unit}; at most {most} are taken"
    if disguise := deceptive_name(tool.name):
        return 0, f"the name {disguise}"
    if any(_is_deep(schema) for schema in (tool.input_schema, tool.output_schema)):
        return 0, f"a schema nests deeper than {MAX_DEPTH} levels"
    return sum(length for length, _, _ in lengths.values()), ""


def _size(value: object) -> int:
    return len(msgspec.json.encode(value)) if value else 0


def _is_deep(value: object, room: int = MAX_DEPTH) -> bool:
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if not isinstance(value, list):
        return False
    return not room or any(_is_deep(each, room - 1) for each in cast("list[Any]", value))


async def _entries(session: ClientSession) -> AsyncGenerator[dict[str, Any]]:
    """The entries of every page, one page after the other."""
    total = 0
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursor)
        answer = await _listed(session, mcp_types.ListToolsRequest(params=params))
        total += len(answer.tools)
        if total > MAX_TOOLS:
            raise UpstreamError(f"lists more than {MAX_TOOLS} tools; use includeTools")
        for raw in answer.tools:
            yield raw
            await anyio.lowlevel.checkpoint()
        cursor = answer.nextCursor
        if not cursor or cursor in seen:
            return
        seen.add(cursor)


async def _listed(session: ClientSession, request: mcp_types.ListToolsRequest) -> _RawListing:
    try:
        return await session.send_request(request, _RawListing)
    except PassedResultError as passed:
        return _RawListing.model_construct(
            tools=passed.result["tools"], nextCursor=passed.result.get("nextCursor")
        )


def _tool(server: str, raw: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        server=server,
        name=raw["name"],
        title=raw.get("title") or "",
        description=raw.get("description") or "",
        input_schema=raw["inputSchema"],
        output_schema=raw.get("outputSchema"),
        annotations=raw.get("annotations"),
    )


def _unmatched(spec: ServerSpec, names: Mapping[str, ToolSpec]) -> list[str]:
    """A filter that matches nothing is most likely a typo."""
    patterns = {
        "includeTools": spec.include_tools or (),
        "excludeTools": spec.exclude_tools,
        "pinTools": spec.pin_tools,
    }
    return [
        f"{key} names {pattern!r}, which the server does not have"
        for key, listed in patterns.items()
        for pattern in listed
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
