"""Clients that search and call, over HTTP and MCP, and look closely at what they get."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio
import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.endurance.chaos_servers import Servers
from tests.gateways import Started

PATIENCE_S = 30.0
"""An answer that takes longer counts as none."""
_MAX_SHOWN = 10

_Answer: TypeAlias = tuple[bool, str]
"""Whether it went well, and what was said."""


@dataclass
class Tally:
    """What became of what was asked."""

    counts: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    """The first few answers that should not have been."""

    def note(self, kind: str, problem: str = "") -> None:
        """Count an answer; one with a problem as wrong."""
        self.counts[f"{kind}, wrong" if problem else kind] += 1
        if problem and len(self.wrong) < _MAX_SHOWN:
            self.wrong.append(f"{kind}: {problem}"[:300])


class Http:
    """Asks the routes of the HTTP interface."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def search(self, text: str) -> _Answer:
        """The status, and the body."""
        response = await self._http.get("/search", params={"q": text, "threshold": 0})
        return response.status_code == 200 and "results" in response.json(), response.text

    async def call(self, tool: str, arguments: dict[str, Any]) -> _Answer:
        """The same."""
        response = await self._http.post(f"/tools/{tool}", json=arguments)
        return response.status_code == 200, response.text


class Mcp:
    """Uses the tools that models are offered."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def search(self, text: str) -> _Answer:
        """Whether it is a result without an error, and its text."""
        return await self._use("search_tools", {"query": text})

    async def call(self, tool: str, arguments: dict[str, Any]) -> _Answer:
        """The same."""
        return await self._use("call_destructive_tool", {"tool": tool, "arguments": arguments})

    async def _use(self, name: str, arguments: dict[str, Any]) -> _Answer:
        try:
            result = await self._client.call_tool(name, arguments)
        except MCPError as error:
            return False, error.message
        texts = [each.text for each in result.content if isinstance(each, types.TextContent)]
        return not result.is_error, "\n".join(texts)


async def use(
    started: Started, kind: str, servers: Servers, tally: Tally, ready: Callable[[], None]
) -> None:
    """Search and call in turns until cancelled: as ``http``, ``session`` or ``newest``."""
    project = servers.chance.choice(servers.projects)
    headers = {"toolscript-project": str(project), "authorization": f"Bearer {started.key}"}
    place = str(project) if servers.with_projects else ""
    async with httpx2.AsyncClient(
        base_url=started.url, timeout=PATIENCE_S, headers=headers
    ) as http:
        if kind == "http":
            await _alternate(Http(http), servers, tally, ready, place)
        mode = "legacy" if kind == "session" else "auto"
        transport = streamable_http_client(f"{started.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            await _alternate(Mcp(client), servers, tally, ready, place)


async def _alternate(
    client: Http | Mcp, servers: Servers, tally: Tally, ready: Callable[[], None], place: str
) -> None:
    chance = random.Random(servers.chance.random())  # noqa: S311 - chooses whom to ask
    ready()
    while True:
        server = chance.choice(servers.names)
        tool = chance.choice(servers.tools[server])
        said = await _heard("search", client.search(tool.replace("_", " ")), tally)
        if said is not None:
            tally.note("searches", "" if said[0] else said[1])
        token = f"<{chance.getrandbits(64):x}>"
        said = await _heard("call", client.call(f"{server}__{tool}", {"token": token}), tally)
        if said is not None:
            _judge(server, (tool, token, place), said, tally)


async def _heard(what: str, asking: Awaitable[_Answer], tally: Tally) -> _Answer | None:
    """The answer; none that comes is counted."""
    try:
        with anyio.fail_after(PATIENCE_S):
            return await asking
    except (TimeoutError, httpx2.HTTPError, OSError) as error:
        tally.note(f"{what} without an answer", f"{type(error).__name__}: {error}")
        return None


def _judge(server: str, wanted: tuple[str, ...], said: _Answer, tally: Tally) -> None:
    well, text = said
    if well:
        mine = all(each in text for each in wanted)
        tally.note("calls answered", "" if mine else f"{' '.join(wanted)}: {text}")
    else:
        tally.note("calls failed", "" if server in text else f"{server} is not named: {text}")
