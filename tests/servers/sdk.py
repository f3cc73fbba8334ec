"""A well-behaved MCP server made with the real SDK: ``sdk.py stdio|http|sse|events [PORT]``.

Over HTTP it listens on 127.0.0.1 and prints its URL. Environment variables change
what it does: with ``NEEDS_AUTHORIZATION`` any request whose ``Authorization`` header is
not that gets 401; while the file ``FORGETFUL`` exists, any request gets 404; with
``CALLS`` it answers in JSON and appends the path of each call of ``read_file`` to that
file. ``events`` is SSE at a path that does not say so.
"""

import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

CALLS = os.environ.get("CALLS")
server = MCPServer("sdk", version="7")


@server.tool()
def read_file(path: str) -> str:
    """Read the contents of a file from disk."""
    if CALLS:
        with Path(CALLS).open("a", encoding="utf-8") as calls:
            calls.write(f"{path}\n")
    return path


@server.tool()
def current_time(timezone: str) -> str:
    """Tell what time it is now in a time zone."""
    return timezone


def guarded(inner: Any) -> Any:
    needed = os.environ.get("NEEDS_AUTHORIZATION", "").encode()
    forgetful = os.environ.get("FORGETFUL")

    def refusal(headers: dict[bytes, bytes]) -> int:
        if needed and headers.get(b"authorization") != needed:
            return 401
        return 404 if forgetful and Path(forgetful).exists() else 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and (status := refusal(dict(scope["headers"]))):
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await inner(scope, receive, send)

    return app


def main(transport: str, port: int) -> None:
    if transport == "stdio":
        server.run("stdio")
        return
    path = {"http": "/mcp", "sse": "/sse", "events": "/events"}[transport]
    app: Any = (
        server.streamable_http_app(json_response=bool(CALLS))
        if transport == "http"
        else server.sse_app(sse_path=path)
    )
    with socket.create_server(("127.0.0.1", port)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{path}"
        print(url, flush=True)  # noqa: T201 - read by the test
        config = uvicorn.Config(guarded(app), log_level="error", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
