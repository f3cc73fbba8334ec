"""A load balancer: sends each request to the next gateway, without affinity.

A gateway that cannot be connected to has not seen the request, so the next one is tried. Nothing
else is sent twice.
"""

import itertools
from collections.abc import Sequence

import httpx2
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from tests.round_robin import RoundRobin

CONNECT_S, ANSWER_S = 1.0, 30.0


class Balancer(RoundRobin):
    """See the module; `urls` are the gateways'."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(urls)
        self._count = len(urls)
        self._next = itertools.cycle(urls)
        timeout = httpx2.Timeout(ANSWER_S, connect=CONNECT_S)
        limits = httpx2.Limits(max_keepalive_connections=0)
        self._client = httpx2.AsyncClient(timeout=timeout, limits=limits)

    async def pass_on(self, request: Request) -> Response:
        """Answers as a gateway does; 502 where the connection to it was lost, 503 without any."""
        for _ in range(self._count):
            try:
                return await super().pass_on(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            except httpx2.TransportError as error:
                return PlainTextResponse(f"the gateway was lost: {type(error).__name__}", 502)
        return PlainTextResponse("no gateway answers", 503)
