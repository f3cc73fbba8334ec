"""The Python SDK's 2.x client, which speaks the newest protocol where it can."""

from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from talk import WHERE, answer, entry, plain

changes: list[object] = []
hear = changes.append


async def told(message: object) -> None:
    if isinstance(message, ToolListChangedNotification):
        hear(message)


async def listen(me: Client, *, task_status: TaskStatus[None]) -> None:
    """As the newest protocol has it: whoever wants to hear of changes asks for a stream."""
    async with me.listen(tools_list_changed=True) as events:
        task_status.started()
        async for event in events:
            hear(event)


async def main() -> None:
    server = WHERE.get("url") or stdio_client(StdioServerParameters(**entry()))
    async with Client(server, message_handler=told) as me, anyio.create_task_group() as tasks:
        if me.protocol_version in MODERN_PROTOCOL_VERSIONS:
            await tasks.start(listen, me)

        async def tools() -> dict[str, str | None]:
            listed = await me.list_tools(cache_mode="refresh")
            return {each.name: each.description for each in listed.tools}

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            return plain(await me.call_tool(name, arguments))

        async def heard() -> int:
            return len(changes)

        await answer(tools=tools, call=call, heard=heard)
        tasks.cancel_scope.cancel()


anyio.run(main)
