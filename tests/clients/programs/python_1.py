"""The Python SDK's 1.x client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ServerNotification, ToolListChangedNotification
from talk import WHERE, answer, entry, plain

changes: list[object] = []


@asynccontextmanager
async def streams() -> AsyncGenerator[tuple[Any, Any]]:
    if "url" in WHERE:
        async with streamable_http_client(WHERE["url"]) as (read, write, _):
            yield read, write
    else:
        async with stdio_client(StdioServerParameters(**entry())) as (read, write):
            yield read, write


async def told(message: object) -> None:
    if isinstance(message, ServerNotification):
        changes.append(message.root)


async def main() -> None:
    async with streams() as (read, write), ClientSession(read, write, message_handler=told) as me:
        await me.initialize()

        async def tools() -> dict[str, str | None]:
            return {each.name: each.description for each in (await me.list_tools()).tools}

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            return plain(await me.call_tool(name, arguments))

        async def heard() -> int:
            return sum(isinstance(each, ToolListChangedNotification) for each in changes)

        await answer(tools=tools, call=call, heard=heard)


anyio.run(main)
