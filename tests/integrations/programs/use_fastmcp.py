"""A FastMCP server with our search, asked by FastMCP's own client."""

import asyncio
import json
from typing import Any

import garden
import guide
from fastmcp import Client, FastMCP
from fastmcp.tools.base import Tool

server = FastMCP("garden")
for function in garden.functions():
    server.add_tool(Tool.from_function(function))
guide.names("FastMCP")["add_search"](server)


async def main() -> dict[str, Any]:
    async with Client(server) as client:
        listed = [tool.name for tool in await client.list_tools()]
        answer = await client.call_tool("search_tools", {"query": garden.QUESTION})
        names = [tool["name"] for tool in json.loads(answer.content[0].text)]
        call = {"name": names[0], "arguments": {"amount": 30}}
        await client.call_tool("call_tool", call)
        return {"listed": listed, "loaded": names, "calls": garden.calls}


print(json.dumps(asyncio.run(main())))
