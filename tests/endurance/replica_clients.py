"""Clients of the older and of the newest protocol, which look closely at what they get."""

import itertools
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from toolscript.errors import innermost

PATIENCE_S = 35.0
_NUMBERS = itertools.count(1)


@dataclass
class Tally:
    """What one client asked, and what it got."""

    server: str
    """The one server that it may see."""
    mode: str
    counts: Counter[str] = field(default_factory=Counter[str])
    answered: list[str] = field(default_factory=list[str])
    """The numbers of the calls that were answered with success."""
    crossed: list[str] = field(default_factory=list[str])
    """What it saw of servers that it may not see."""
    last_served: float = 0.0

    def check(self, what: str, names: list[str]) -> None:
        """Notes names of tools, of which none may be another server's."""
        self.crossed += [f"{what}: {name}" for name in names if not self._is_mine(name)]

    def _is_mine(self, name: str) -> bool:
        return name.startswith((f"{self.server}__", f"{self.server}:"))


async def use(url: str, token: str, tally: Tally, ended: Event) -> None:
    """Opens sessions one after the other until the end."""
    headers = {"Authorization": f"Bearer {token}"}
    while not ended.is_set():
        try:
            with anyio.fail_after(PATIENCE_S * 2):
                async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
                    transport = streamable_http_client(f"{url}/mcp", http_client=http)
                    mode: Any = "legacy" if tally.mode == "older" else "auto"
                    async with Client(transport, mode=mode) as client:
                        await _session(client, tally, ended)
        except Exception as error:  # noqa: BLE001 - whatever fails is counted, and tried again
            tally.counts[f"session ended: {type(innermost(error)).__name__}"] += 1
            await anyio.sleep(0.2)


async def _session(client: Client, tally: Tally, ended: Event) -> None:
    """Searches and calls for a while."""
    tally.counts["sessions"] += 1
    for _ in range(random.randint(3, 12)):  # noqa: S311 - of no consequence
        if ended.is_set():
            return
        asked = {"query": "echo", "limit": 50, "detail": True}
        found = await client.call_tool("search_tools", asked)
        if found.is_error:
            tally.counts[f"search refused: {_text(found)[:60]}"] += 1
        else:
            answer: Any = json.loads(_text(found))
            tally.check("search", [each["id"] for each in answer["tools"]])
            tally.counts["searches"] += 1
        await _call(client, tally)


async def _call(client: Client, tally: Tally) -> None:
    number = str(next(_NUMBERS))
    arguments = {"tool": f"{tally.server}__{tally.server}_echo", "arguments": {"number": number}}
    result = await client.call_tool("call_destructive_tool", arguments)
    if result.is_error:
        tally.counts[f"call refused: {_text(result)[:60]}"] += 1
        return
    tally.counts["calls"] += 1
    tally.answered.append(number)
    tally.last_served = time.monotonic()


def _text(result: types.CallToolResult) -> str:
    return " ".join(each.text for each in result.content if isinstance(each, types.TextContent))
