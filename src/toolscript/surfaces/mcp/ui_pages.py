"""Gives clients the URIs of the pages of MCP Apps (SEP-1865), which tools name in ``_meta``.

A page keeps its URI unless tools of several servers name the same one. toolscript shows no page.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import quote

from toolscript.text.wire_constants import PAGE_SCHEME
from toolscript.types import ToolSpec

_Raw: TypeAlias = dict[str, Any]
QUALIFIED, QUALIFIED_PAGE = "toolscript:///", f"{PAGE_SCHEME}toolscript/"


def qualified(server: str, uri: str) -> str:
    """Returns the URI of one server's resource, whichever others list the same."""
    root = QUALIFIED_PAGE if uri.startswith(PAGE_SCHEME) else QUALIFIED
    return f"{root}{quote(server, safe='')}/{quote(uri, safe='')}"


def servers_by_page(tools: Iterable[ToolSpec]) -> dict[str, set[str]]:
    """Returns the servers whose tools name a page, by the page's URI."""
    servers: dict[str, set[str]] = {}
    for tool in tools:
        if tool.page:
            servers.setdefault(tool.page, set()).add(tool.server)
    return servers


def name_page(entry: _Raw, tool: ToolSpec, servers: dict[str, set[str]]) -> _Raw:
    """Returns a tool's entry in a list, with a URI that leads to its own server's page.

    Args:
        entry: The entry.
        tool: The tool.
        servers: The servers that name a page: see `servers_by_page`.
    """
    is_shared = len(servers.get(tool.page, ())) > 1
    if not is_shared and not tool.page.startswith(QUALIFIED_PAGE):
        return entry
    page = {"resourceUri": qualified(tool.server, tool.page)}
    return {**entry, "_meta": {**entry["_meta"], "ui": {**entry["_meta"]["ui"], **page}}}
