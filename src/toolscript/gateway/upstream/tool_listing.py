"""Lists a server's tools so that one bad tool costs only itself."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

import anyio.lowlevel
import mcp_types
import msgspec
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types.methods import validate_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolscript.errors import UpstreamError
from toolscript.gateway.jsonrpc_reader import UnparsedResult
from toolscript.gateway.raw_results import UnreadableError, as_foreign
from toolscript.gateway.upstream.raw_dispatcher import send_raw
from toolscript.text.display import printable
from toolscript.text.json_values import as_object
from toolscript.text.names import deceptive_name
from toolscript.types import ServerSpec, ToolSpec

MAX_PAGES = 1000
MAX_FRESH_S = 86_400
"""The longest time for which a list is not asked for again because its server calls it valid."""
MAX_TOOLS = 20_000
MAX_NAME_CHARS, MAX_TITLE_CHARS, MAX_DESCRIPTION_CHARS = 128, 1024, 64 * 1024
MAX_SCHEMA_BYTES, MAX_ANNOTATIONS_BYTES = 256 * 1024, 16 * 1024
MAX_DEPTH = 128
"""How deep a schema may nest."""
MAX_TOOL_BYTES = 2 * MAX_SCHEMA_BYTES + MAX_DESCRIPTION_CHARS + 64 * 1024
MAX_SERVER_BYTES = 16 * 1024 * 1024
"""All tools of one server together, as JSON."""
_MAX_COMMAS = 500_000
"""A page of a listing with more commas than that is refused."""
_MAX_FIELD_BYTES = 4096
"""Larger fields of a page, other than its tools, are left out."""
_UNREADABLE = (ValueError, msgspec.MsgspecError, RecursionError)


class _Named(msgspec.Struct):
    name: str


class _RejectedToolError(Exception):
    """Says why a tool is left out."""


class Listing(NamedTuple):
    """A server's answer about its tools."""

    tools: tuple[ToolSpec, ...]
    """The usable tools, as the server's configuration filters them."""
    rejected: tuple[str, ...]
    """A line for each rejected tool and each filter that matches nothing, and for pages unread."""
    fresh_s: float
    """For how many seconds the server says that the list is valid; 0 if it does not say."""


async def list_tools(session: ClientSession, spec: ServerSpec) -> Listing:
    """Returns a server's tools."""
    tools: dict[str, ToolSpec] = {}
    rejected: list[str] = []
    lifetimes_ms: list[Any] = []
    free_bytes = MAX_SERVER_BYTES
    more: Any = None
    async for rest, entries in _pages(session):
        more = rest.get("nextCursor")
        lifetimes_ms.append(rest.get("ttlMs"))
        for entry in entries:
            try:
                tool = _tool(session, spec, entry, rest)
                free_bytes -= _check_size(tool, tools, free_bytes)
            except _RejectedToolError as error:
                rejected.append(f"{_name_of(entry)}: {error}")
            else:
                tools[tool.name] = tool
                _mirror_arguments(session, tool)
            await anyio.lowlevel.checkpoint()
    if more and len(lifetimes_ms) == MAX_PAGES:
        rejected.insert(0, f"all past page {MAX_PAGES} of its list, which may have no end")
    rejected += _find_unmatched(spec, tools)
    usable = tuple(tool for name, tool in tools.items() if spec.offers(name))
    return Listing(usable, tuple(rejected), fresh_s(_version(session), lifetimes_ms))


def _mirror_arguments(session: ClientSession, tool: ToolSpec) -> None:
    """Has calls of a tool repeat the arguments in headers that its schema names, over HTTP.

    The session does so by itself for listings that it checks as a whole.
    """
    maps = session._x_mcp_header_maps  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - the SDK has no other way
    maps[tool.name] = x_mcp_header_map(tool.input_schema)


def fresh_s(protocol: str, lifetimes_ms: Sequence[Any]) -> float:
    """Returns for how many seconds a list is valid.

    Args:
        protocol: The version of the protocol; the field of an older one means nothing.
        lifetimes_ms: The ``ttlMs`` of each page.
    """
    if protocol not in MODERN_PROTOCOL_VERSIONS:
        return 0
    return min(min(each or 0 for each in lifetimes_ms) / 1000, MAX_FRESH_S)


async def _pages(session: ClientSession) -> AsyncGenerator[tuple[dict[str, Any], list[Any]]]:
    """Yields every page: see `_page`."""
    total = 0
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(MAX_PAGES):
        rest, entries = await _page(session, cursor)
        total += len(entries)
        if total > MAX_TOOLS:
            raise UpstreamError(f"lists more than {MAX_TOOLS} tools; use includeTools")
        yield rest, entries
        cursor = rest.get("nextCursor")
        if not cursor or cursor in seen:
            return
        seen.add(cursor)


async def answers_listing(session: ClientSession) -> bool:
    """Whether the server still lists its tools, as it did when the session began."""
    with suppress(ValueError):  # a listing that cannot be read is one, too
        try:
            await _page(session, None)
        except MCPError:
            return False
    return True


async def _page(session: ClientSession, cursor: str | None) -> tuple[dict[str, Any], list[Any]]:
    """Returns a page's fields other than its tools, which are valid, and its entries."""
    params = mcp_types.PaginatedRequestParams(cursor=cursor)
    page = await send_raw(session, mcp_types.ListToolsRequest(params=params))
    rest: dict[str, Any] = _split(page) if isinstance(page, UnparsedResult) else dict(page)
    entries = rest.pop("tools", None)
    checked: Any = [] if isinstance(entries, list) else entries
    validate_server_result("tools/list", _version(session), {**rest, "tools": checked})
    return rest, cast("list[Any]", entries)


def _split(page: UnparsedResult) -> dict[str, Any]:
    """Returns a large page with its tools as raw JSON."""
    if page.text.count(b",") > _MAX_COMMAS:
        raise UnreadableError("lists too much at once; it should list its tools by pages")
    fields = msgspec.json.decode(page.text, type=dict[str, msgspec.Raw])
    tools = msgspec.json.decode(fields.pop("tools", msgspec.Raw(b"[]")), type=list[msgspec.Raw])
    small = {name: value for name, value in fields.items() if len(value) <= _MAX_FIELD_BYTES}
    return {**{name: msgspec.json.decode(value) for name, value in small.items()}, "tools": tools}


def _version(session: ClientSession) -> str:
    return session.protocol_version or LATEST_HANDSHAKE_VERSION


def _tool(session: ClientSession, spec: ServerSpec, entry: Any, rest: dict[str, Any]) -> ToolSpec:
    """Returns a tool of a page; raises `_RejectedToolError` for one that is not valid."""
    raw = _check_entry(session, entry, rest)
    return ToolSpec(
        server=spec.name,
        name=raw["name"],
        title=raw.get("title") or "",
        description=raw.get("description") or "",
        input_schema=raw["inputSchema"],
        output_schema=raw.get("outputSchema"),
        annotations=raw.get("annotations"),
        config_class=spec.class_of(raw["name"]),
        meta=as_foreign(raw).get("_meta"),
        icons=raw.get("icons"),
    )


def _check_entry(session: ClientSession, entry: Any, rest: dict[str, Any]) -> dict[str, Any]:
    """Returns an entry of a page as the protocol has it; raises `_RejectedToolError`."""
    if isinstance(entry, msgspec.Raw) and len(entry) > MAX_TOOL_BYTES:
        raise _RejectedToolError(f"it has {len(entry)} bytes; at most {MAX_TOOL_BYTES} are read")
    try:
        raw = msgspec.json.decode(entry) if isinstance(entry, msgspec.Raw) else entry
        validate_server_result("tools/list", _version(session), {**rest, "tools": [raw]})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][2:]) or "the entry"
        raise _RejectedToolError(f"{where}: {first['msg']}") from None
    except _UNREADABLE as error:
        raise _RejectedToolError(f"it cannot be read: {error}") from None
    checks = _version(session) in MODERN_PROTOCOL_VERSIONS and not _is_deep(raw["inputSchema"])
    if checks and (mistake := find_invalid_x_mcp_header(raw["inputSchema"])):
        raise _RejectedToolError(printable(mistake, 200))
    return raw


def _name_of(entry: Any) -> str:
    name: Any = as_object(entry).get("name")
    if isinstance(entry, msgspec.Raw):
        with suppress(*_UNREADABLE):
            name = msgspec.json.decode(entry, type=_Named).name
    return printable(str(name), 80) if name else "a tool without a name"


def _check_size(tool: ToolSpec, tools: Mapping[str, ToolSpec], free_bytes: int) -> int:
    """Returns a tool's size as JSON in bytes.

    Raises `_RejectedToolError` for a tool that is past a bound or already in ``tools``.
    """
    if not tool.name.strip() or not tool.name.isprintable():
        raise _RejectedToolError("the name is empty or cannot be shown")
    lengths = {
        "name": (len(tool.name), MAX_NAME_CHARS, "characters"),
        "title": (len(tool.title), MAX_TITLE_CHARS, "characters"),
        "description": (len(tool.description), MAX_DESCRIPTION_CHARS, "characters"),
        "input schema": (_json_size(tool.input_schema), MAX_SCHEMA_BYTES, "bytes"),
        "output schema": (_json_size(tool.output_schema), MAX_SCHEMA_BYTES, "bytes"),
        "annotations": (_json_size(tool.annotations), MAX_ANNOTATIONS_BYTES, "bytes"),
    }
    for field, (length, most, unit) in lengths.items():
        if length > most:
            raise _RejectedToolError(f"the {field} has {length} {unit}; at most {most} are taken")
    if disguise := deceptive_name(tool.name):
        raise _RejectedToolError(f"the name {disguise}")
    if any(_is_deep(schema) for schema in (tool.input_schema, tool.output_schema)):
        raise _RejectedToolError(f"a schema nests deeper than {MAX_DEPTH} levels")
    if tool.name in tools:
        raise _RejectedToolError("listed twice; the first is kept")
    size = sum(length for length, _, _ in lengths.values())
    if size > free_bytes:
        most = f"{MAX_SERVER_BYTES // 2**20} MiB"
        raise _RejectedToolError(f"past the {most} that one server may list")
    return size


def _json_size(value: object) -> int:
    return len(msgspec.json.encode(value)) if value else 0


def _is_deep(value: object, levels: int = MAX_DEPTH) -> bool:
    """Whether a value nests deeper than so many levels."""
    if isinstance(value, dict):
        value = list(cast("dict[str, Any]", value).values())
    if not isinstance(value, list):
        return False
    return not levels or any(_is_deep(item, levels - 1) for item in cast("list[Any]", value))


def _find_unmatched(spec: ServerSpec, names: Mapping[str, ToolSpec]) -> list[str]:
    """Returns a line for each filter that matches nothing, most likely a typo."""
    patterns = {
        "includeTools": spec.include_tools or (),
        "excludeTools": spec.exclude_tools,
        "pinTools": spec.pin_tools,
        "class": tuple(spec.classes),
    }
    return [
        f"{key} names {pattern!r}, which the server does not have"
        for key, listed in patterns.items()
        for pattern in listed
        if not any(fnmatchcase(name, pattern) for name in names)
    ]
