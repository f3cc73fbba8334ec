"""A proxy in front of a gateway that has the names of what one server offers without it.

The scenarios of the conformance suite call tools and read resources by fixed names, and the
gateway's begin with their server. Nothing else of a request is changed, and nothing of an answer.
"""

import json
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_DROPPED = {"content-length", "transfer-encoding", "connection", "content-encoding"}


def _with_server(server: str, names: set[str], body: bytes) -> tuple[bytes, str]:
    """Returns a body in which the server's own names have the server, and that name."""
    try:
        decoded: Any = json.loads(body)
    except ValueError:
        return body, ""
    message = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    params: dict[str, Any] = message.get("params") or {}
    field = _NAMED.get(str(message.get("method")), "")
    if params.get(field) not in names:
        return body, ""
    prefix = f"toolscript:///{server}/" if field == "uri" else f"{server}__"
    params[field] = f"{prefix}{params[field]}"
    return json.dumps(message).encode(), params[field]


@contextmanager
def bare_names(gateway: str, server: str, names: set[str]) -> Generator[str]:
    """Runs the proxy; yields its URL."""
    host = urlsplit(gateway).netloc

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with httpx2.AsyncClient(timeout=None) as client:
            app.state.client = client
            yield

    async def forward(request: Request) -> StreamingResponse:
        client: httpx2.AsyncClient = request.app.state.client
        body, name = _with_server(server, names, await request.body())
        headers = {k: v.strip() for k, v in request.headers.items() if k != "content-length"}
        for header in ("host", "origin"):
            if header in headers:
                headers[header] = headers[header].replace(own, host)
        if name and "mcp-name" in headers:
            headers["mcp-name"] = name
        url = f"{gateway}{request.url.path}"
        sent = client.build_request(request.method, url, headers=headers, content=body)
        answer = await client.send(sent, stream=True)
        shown = {k: v for k, v in answer.headers.items() if k not in _DROPPED}

        async def chunks() -> AsyncGenerator[bytes]:
            async for chunk in answer.aiter_raw():
                yield chunk

        return StreamingResponse(
            chunks(), answer.status_code, shown, background=BackgroundTask(answer.aclose)
        )

    methods = ["GET", "POST", "DELETE"]
    route = Route("/{path:path}", forward, methods=methods)
    app = Starlette(routes=[route], lifespan=lifespan)
    with served(app) as url:
        own = urlsplit(url).netloc
        yield url


@contextmanager
def served(app: Starlette) -> Generator[str]:
    """Serves an application in a thread; yields its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()
