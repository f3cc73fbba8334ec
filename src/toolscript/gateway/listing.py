"""Listing a server's tools so that one bad tool costs only itself."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, cast

import mcp_types
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import BaseModel, ValidationError

from toolscript.errors import UpstreamError
from toolscript.text import deceptive_name, printable
from toolscript.types import ServerSpec, ToolSpec

MAX_PAGES = 1000
MAX_TOOLS = 20_000


class _RawListing(BaseModel):
    """A listing whose tools keep every field, those the SDK does not know included."""

    tools: list[dict[str, Any]]
    nextCursor: str | None = None  # noqa: N815 - as on the wire


class ListingDispatcher(JSONRPCDispatcher[Any]):
    """A dispatcher that takes invalid tools out of a listing before the session sees it.

    The session checks an answer as a whole, so one malformed tool would cost
    all the others. It also says when the connection has ended.
    """

    def __init__(self, read: Any, write: Any, *, on_closed: Callable[[], None]) -> None:
        super().__init__(read, write)
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
        raw = await super().send_raw_request(method, params, opts, **options)
        return self._salvaged(raw) if method == "tools/list" else raw

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
    for raw in await _pages(session):
        tool = _tool(spec.name, raw)
        if not tool.name.strip() or not tool.name.isprintable():
            rejected.append(f"{_name_of(raw)}: the name is empty or cannot be shown")
        elif problem := deceptive_name(tool.name):
            rejected.append(f"{_name_of(raw)}: the name {problem}")
        elif tool.name in tools:
            rejected.append(f"{_name_of(raw)}: listed twice; the first is kept")
        else:
            tools[tool.name] = tool
    rejected += _unmatched(spec, tools)
    kept = tuple(tool for name, tool in tools.items() if spec.offers(name))
    return kept, (*dispatcher.rejected, *rejected)


async def _pages(session: ClientSession) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        params = mcp_types.PaginatedRequestParams(cursor=cursor)
        answer = await session.send_request(mcp_types.ListToolsRequest(params=params), _RawListing)
        found += answer.tools
        if len(found) > MAX_TOOLS:
            raise UpstreamError(f"lists more than {MAX_TOOLS} tools; use includeTools")
        cursor = answer.nextCursor
        if not cursor or cursor in seen:
            break
        seen.add(cursor)
    return found


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
