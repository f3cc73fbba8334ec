"""Lists the prompts, resources and resource templates of a server.

The snapshot keeps these lists, so that a server need not be started to be listed.
"""

from typing import Any, TypeAlias

import anyio
import mcp_types
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from toolscript.gateway.diagnosis import is_closed
from toolscript.gateway.upstream.raw_dispatcher import send_raw
from toolscript.text.json_values import as_list

TIMEOUT_S = 5.0
MAX_ENTRIES, MAX_PAGES = 1000, 20
"""The maximum number of entries of one list: only the running server lists the rest."""
_LISTS = {
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("resources", "resourceTemplates"),
}
"""The capability that a server declares, and the key of the entries, by method."""
Lists: TypeAlias = dict[str, tuple[Any, ...]]


def has_other_lists(session: ClientSession) -> bool:
    """Whether a server declares that it offers any."""
    capabilities = session.server_capabilities
    return any(getattr(capabilities, name, None) for name, _ in _LISTS.values())


async def other_lists(session: ClientSession) -> Lists:
    """Returns the entries of every list that is not empty, by its method.

    A list that a server refuses, or does not give in `TIMEOUT_S`, is left out.
    """
    capabilities = session.server_capabilities
    lists: Lists = {}
    for method, (capability, key) in _LISTS.items():
        if getattr(capabilities, capability, None) is None:
            continue
        with anyio.move_on_after(TIMEOUT_S):
            if entries := await _entries(session, method, key):
                lists[method] = tuple(entries)
    return lists


async def _entries(session: ClientSession, method: str, key: str) -> list[Any]:
    """Returns the entries of all pages of a list."""
    entries: list[Any] = []
    params: dict[str, Any] = {}
    for _ in range(MAX_PAGES):
        page = await _page(session, method, params)
        entries += (each for each in as_list(page.get(key)) if isinstance(each, dict))
        if not page.get("nextCursor") or len(entries) >= MAX_ENTRIES:
            break
        params = {"cursor": page["nextCursor"]}
    return entries[:MAX_ENTRIES]


async def _page(session: ClientSession, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Returns a page of a list; an empty one if the server refuses it."""
    request = mcp_types.Request[dict[str, Any], str](method=method, params=params)
    try:
        return await send_raw(session, request)
    except MCPError as error:
        if is_closed(error):
            raise
        return {}
