"""A reverse proxy that sends each request to the next of several gateways, as a balancer may."""

import itertools
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from threading import Thread

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.support import PATIENCE_S, until

_HOP_BY_HOP = {"host", "connection", "keep-alive", "transfer-encoding", "content-length"}


class RoundRobin:
    """Counts what it passes on, by gateway and status."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._next = itertools.cycle(urls)
        self._client = httpx2.AsyncClient(timeout=PATIENCE_S)
        self.answers: list[tuple[str, str, int]] = []
        """Gateway, method and status of each request."""

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncGenerator[None]:
        async with self._client:
            yield

    async def pass_on(self, request: Request) -> Response:
        url = next(self._next)
        headers = {key: v for key, v in request.headers.items() if key not in _HOP_BY_HOP}
        query = f"?{request.url.query}" if request.url.query else ""
        target = f"{url}{request.url.path}{query}"
        sent = self._client.build_request(
            request.method, target, headers=headers, content=await request.body()
        )
        answer = await self._client.send(sent, stream=True)
        self.answers.append((url, request.method, answer.status_code))
        kept = {key: v for key, v in answer.headers.items() if key not in _HOP_BY_HOP}

        async def pieces() -> AsyncGenerator[bytes]:
            try:
                async for piece in answer.aiter_raw():
                    yield piece
            except httpx2.TransportError:  # the gateway was stopped in the middle of a stream
                return
            finally:
                await answer.aclose()

        return StreamingResponse(pieces(), answer.status_code, kept)


@contextmanager
def round_robin(*urls: str) -> Generator[tuple[str, RoundRobin]]:
    """The address of a proxy before these gateways, and the proxy."""
    proxy = RoundRobin(urls)
    with serving(proxy) as url:
        yield url, proxy


@contextmanager
def serving(proxy: RoundRobin) -> Generator[str]:
    """The address of a proxy, which answers there for as long as the block lasts."""
    methods = ["GET", "POST", "DELETE"]
    route = Route("/{path:path}", proxy.pass_on, methods=methods)
    asgi = Starlette(routes=[route], lifespan=proxy.running)
    config = uvicorn.Config(
        asgi, "127.0.0.1", 0, log_config=None, ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the proxy listens")
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
