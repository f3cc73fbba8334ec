"""Passes a client's request on to the replica that has its session's connection.

The other replica checks the client's token and session id as its own; nothing here grants anything.
"""

import logging
from typing import Any

import anyio
import httpx2
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from toolscript.surfaces.mcp.sessionless import json_rpc_error
from toolscript.surfaces.server.error_answers import json_response

log = logging.getLogger(__name__)
FORWARDED_HEADER = "toolscript-forwarded"
"""Marks a request that another replica has passed on: it is not passed on again."""
CONNECT_S = 2.0
_LOST, _BAD_GATEWAY = -32603, 502
_HOP_BY_HOP = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "te", "upgrade", "content-length"}
)
_OF_PAGES = frozenset({"origin", "referer", "cookie"})
"""Headers about the page of a request, which this gateway has checked as its own."""


def is_forwarded(scope: Scope) -> bool:
    """Whether another replica has passed a request on."""
    return FORWARDED_HEADER in Headers(scope=scope)


async def forward(url: str, body: bytes, scope: Scope, receive: Receive, send: Send) -> bool:
    """Answers a request as the replica at ``url`` does, whose stream it passes on.

    Returns false, having sent nothing, where that replica cannot be reached.
    """
    headers = [(k, v) for k, v in scope["headers"] if _is_passed_on(k.decode("latin-1"))]
    headers = [*headers, (FORWARDED_HEADER.encode(), b"1")]
    target = f"{url.rstrip('/')}{scope['path']}?{scope['query_string'].decode('latin-1')}"
    timeout = httpx2.Timeout(None, connect=CONNECT_S)
    # A connection that is used again may have been lost before the request was sent on it.
    async with httpx2.AsyncClient(timeout=timeout) as client:
        request = client.build_request(scope["method"], target, headers=headers, content=body)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cancel_on_hang_up, receive, tasks.cancel_scope)
            reached = await _answer(client, request, scope, receive, send)
            tasks.cancel_scope.cancel()
            return reached
    return True  # the client has hung up


def _is_passed_on(header: str) -> bool:
    return header not in _HOP_BY_HOP | _OF_PAGES and not header.startswith("sec-fetch-")


async def _answer(
    client: httpx2.AsyncClient, request: httpx2.Request, scope: Scope, receive: Receive, send: Send
) -> bool:
    try:
        response = await client.send(request, stream=True)
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        return False
    except httpx2.TransportError:
        text = "the gateway that has this session was lost; whether it was done is unknown"
        await json_response(json_rpc_error(None, _LOST, text), _BAD_GATEWAY)(scope, receive, send)
        return True
    kept = [(k.lower(), v) for k, v in response.headers.raw]
    head: Any = [(k, v) for k, v in kept if k.decode("latin-1") not in _HOP_BY_HOP]
    await send({"type": "http.response.start", "status": response.status_code, "headers": head})
    try:
        async for piece in response.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except httpx2.TransportError as error:  # the stream ends; its client asks again
        log.debug("the stream of another gateway has ended: %s", error)
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return True


async def _cancel_on_hang_up(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
