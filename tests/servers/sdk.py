"""A well-behaved MCP server made with the real SDK: ``sdk.py stdio|http|sse [TAG]``.

Over HTTP it listens on a free port of 127.0.0.1 and prints its URL. With the
environment variable ``NEEDS_AUTHORIZATION`` set, it answers 401 to any request
whose ``Authorization`` header is not that.
"""

import os
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("sdk", version="7")


@server.tool()
def read_file(path: str) -> str:
    """Read the contents of a file from disk."""
    return path


@server.tool()
def current_time(timezone: str) -> str:
    """Tell what time it is now in a time zone."""
    return timezone


def guarded(inner: Any, needed: str) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != needed.encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"who are you?"})
            return
        await inner(scope, receive, send)

    return app


def main(transport: str) -> None:
    if transport == "stdio":
        server.run("stdio")
        return
    app: Any = server.streamable_http_app() if transport == "http" else server.sse_app()
    if needed := os.environ.get("NEEDS_AUTHORIZATION"):
        app = guarded(app, needed)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        where = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(where + ("/mcp" if transport == "http" else "/sse"), flush=True)  # noqa: T201 - read by the test
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


main(sys.argv[1])
