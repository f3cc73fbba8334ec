"""Answers searches as FastMCP's ``BM25SearchTransform`` does: JSON lines in, JSON lines out.

Runs in the environment of the peers. The first line has the tools, each further one a question.
"""

import asyncio
import json
import logging
import sys
from importlib import import_module
from typing import Any


async def main() -> None:
    """Answers until the input ends."""
    logging.getLogger().setLevel(logging.ERROR)
    base: Any = import_module("fastmcp.tools.base")
    search: Any = import_module("fastmcp.server.transforms.search.bm25")
    package: Any = import_module("fastmcp")
    server = package.FastMCP("trial")
    for tool in json.loads(sys.stdin.readline())["tools"]:
        schema = tool["inputSchema"]
        text = tool.get("description") or ""
        server.add_tool(base.Tool(name=tool["name"], description=text, parameters=schema))
    server.add_transform(search.BM25SearchTransform(max_results=5))
    listed = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
        for tool in await server.list_tools()
    ]
    print(json.dumps(listed), flush=True)
    for line in sys.stdin:
        answer = await server.call_tool("search_tools", json.loads(line))
        print(json.dumps(answer.structured_content["result"]), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
