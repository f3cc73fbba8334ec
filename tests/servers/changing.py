"""An MCP server made with the real SDK whose one tool is called as a file says.

``changing.py stdio|http|sse FILE [quiet]``. The file may also have all of its tools, as a list in
JSON. A call is answered with the tool's name. When the file changes, it tells so
over every connection, as the protocol of each has it; with ``quiet`` it neither
promises nor tells. While the file ``FILE.deaf`` exists, streams of subscriptions
are ended as soon as they begin. Over HTTP it listens on 127.0.0.1 and prints its URL.
"""

import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from starlette.applications import Starlette
from starlette.routing import Mount, Route

FILE = Path(sys.argv[2])
DEAF = FILE.with_name(f"{FILE.name}.deaf")
QUIET = "quiet" in sys.argv
OPTIONS = NotificationOptions(tools_changed=not QUIET)
bus = InMemorySubscriptionBus()
listening = ListenHandler(bus)
sessions: set[ServerSession] = set()


def named() -> str:
    return FILE.read_text("utf-8").strip()


async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
    sessions.add(ctx.session)
    name = named()
    one = {"name": name, "description": name, "inputSchema": {"type": "object"}}
    tools = json.loads(name) if name.startswith("[") else [one]
    return types.ListToolsResult(tools=[types.Tool.model_validate(each) for each in tools])


async def called(ctx: Any, params: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.name)])


async def listen(ctx: Any, params: Any) -> Any:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_when_deaf)
        try:
            return await listening(ctx, params)
        finally:
            tasks.cancel_scope.cancel()


async def end_when_deaf() -> None:
    while not DEAF.exists():  # noqa: ASYNC110 - a file has no event
        await anyio.sleep(0.02)
    listening.close()


async def tell() -> None:
    seen = named()
    while True:
        await anyio.sleep(0.02)
        if named() != seen:
            seen = named()
            await bus.publish(ToolsListChanged())
            for session in sessions:
                await session.send_tool_list_changed()


@asynccontextmanager
async def telling(_: Any = None) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        if not QUIET:
            tasks.start_soon(tell)
        yield
        tasks.cancel_scope.cancel()


server: Server[Any] = Server(
    "changing",
    on_list_tools=listed,
    on_call_tool=called,
    on_subscriptions_listen=None if QUIET else listen,
)


def sse_app() -> Starlette:
    transport = SseServerTransport("/messages/")

    class Events:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async with transport.connect_sse(scope, receive, send) as streams:
                await server.run(*streams, server.create_initialization_options(OPTIONS))

    posts = Mount("/messages/", app=transport.handle_post_message)
    return Starlette(routes=[Route("/sse", Events()), posts])


async def over_stdio() -> None:
    async with telling(), stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options(OPTIONS))


async def over_http(kind: str) -> None:
    app: Any = server.streamable_http_app() if kind == "http" else sse_app()
    with socket.create_server(("127.0.0.1", 0)) as listens:
        path = "/mcp" if kind == "http" else "/sse"
        print(f"http://127.0.0.1:{listens.getsockname()[1]}{path}", flush=True)  # noqa: T201 - read by the test
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        async with telling():
            await uvicorn.Server(config).serve(sockets=[listens])


if sys.argv[1] == "stdio":
    anyio.run(over_stdio)
else:
    anyio.run(over_http, sys.argv[1])
