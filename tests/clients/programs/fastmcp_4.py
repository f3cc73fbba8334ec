"""The FastMCP client; ``mode`` beside the address is its own option."""

from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.messages import MessageHandler
from talk import WHERE, answer, config, plain


class Ear(MessageHandler):
    heard = 0

    async def on_tool_list_changed(self, message: object) -> None:
        del message
        self.heard += 1


async def main() -> None:
    ear = Ear()
    server, mode = WHERE.get("url") or config(), WHERE.get("mode", "auto")
    async with Client(server, message_handler=ear, mode=mode) as me:

        async def tools() -> dict[str, str | None]:
            return {each.name: each.description for each in await me.list_tools()}

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            return plain(await me.call_tool_mcp(name, arguments))

        async def heard() -> int:
            return ear.heard

        await answer(tools=tools, call=call, heard=heard)


anyio.run(main)
