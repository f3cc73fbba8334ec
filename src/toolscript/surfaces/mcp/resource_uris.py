"""Gives clients the URIs of servers' resources: each begins with the name of its server.

The pages of MCP Apps (SEP-1865), which tools name in ``_meta``, keep their scheme. toolscript shows
no page.
"""

from typing import Any, TypeAlias
from urllib.parse import quote, unquote

from toolscript.text.wire_constants import PAGE_SCHEME
from toolscript.types import ToolSpec

_Raw: TypeAlias = dict[str, Any]
QUALIFIED, QUALIFIED_PAGE = "toolscript:///", f"{PAGE_SCHEME}toolscript/"


def qualified(server: str, uri: str) -> str:
    """Returns the URI of one server's resource, or of its template."""
    root = QUALIFIED_PAGE if uri.startswith(PAGE_SCHEME) else QUALIFIED
    return f"{root}{quote(server, safe='')}/{uri}"


def split_qualified(uri: str) -> tuple[str, str]:
    """Returns the server that a URI names, and its own URI; both are empty if it names none."""
    for root in (QUALIFIED, QUALIFIED_PAGE):
        if uri.startswith(root):
            server, _, own = uri.removeprefix(root).partition("/")
            return unquote(server), own
    return "", ""


def name_page(entry: _Raw, tool: ToolSpec) -> _Raw:
    """Returns a tool's entry in a list, with a URI that leads to its own server's page."""
    if not tool.page:
        return entry
    page = {"resourceUri": qualified(tool.server, tool.page)}
    return {**entry, "_meta": {**entry["_meta"], "ui": {**entry["_meta"]["ui"], **page}}}
