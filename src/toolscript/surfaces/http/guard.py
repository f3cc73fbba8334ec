"""Who may ask: the host that is named, the page that asks, and what the caller is granted.

Stands before every route of the HTTP door, those of other protocols included.
"""

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolscript.types import EVERYTHING, Grant

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
ANY_HOST = ("*",)
_GRANT = "toolscript.grant"


def grant_of(request: HTTPConnection) -> Grant:
    """What the caller of this request may find, list and call; see `Guard`."""
    return request.scope[_GRANT]


class Guard:
    """Refuses requests that nobody of this machine meant, and notes what the others may see.

    A request for another host than ``hosts`` comes from a web page that points
    a name of its own at this address; one with the ``Origin`` of another host
    from a page that makes the browser ask.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] = LOOPBACK_HOSTS) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        problem = self._problem(HTTPConnection(scope))
        if problem:
            await _refusal(*problem)(scope, receive, send)
            return
        scope[_GRANT] = EVERYTHING
        await self._app(scope, receive, send)

    def _problem(self, request: HTTPConnection) -> tuple[int, str] | None:
        host = request.headers.get("host", "")
        if not self._knows(host):
            return 400, f"the host {host[:60]!r} is not this gateway's; ask for {self._hosts[0]}"
        origin = request.headers.get("origin")
        if origin is not None and not self._is_ours(origin, host):
            return 403, f"a page of {origin[:60]!r} may not ask this gateway"
        return None

    def _knows(self, host: str) -> bool:
        return self._hosts == ANY_HOST or _without_port(host) in self._hosts

    def _is_ours(self, origin: str, host: str) -> bool:
        """Whether the page is of this machine, or of the very host that is asked."""
        asking = origin.partition("://")[2].lower()
        return asking == host.lower() or _without_port(asking) in LOOPBACK_HOSTS


def _without_port(host: str) -> str:
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).lower()


def _refusal(status: int, message: str) -> Response:
    body = msgspec.json.encode({"error": message, "type": "HTTPException"})
    return Response(body, status, media_type="application/json")
