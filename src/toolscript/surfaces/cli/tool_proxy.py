"""Forwards a sandboxed script's calls of chosen tools to the gateway, over a loopback port.

The script has a key of its own, which admits to these calls and nothing else, and
is worth nothing once this process has ended. The gateway's key stays in this process.
"""

import hmac
import http.client
import http.server
import json
import secrets
import selectors
import socketserver
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self, cast
from urllib.parse import quote, unquote, urlsplit

MAX_BODY_BYTES = 4 * 1024 * 1024
"""As much as the gateway reads."""
MAX_CALLS = 32
"""At the same time; further ones wait."""
_PREFIX = "/tools/"
_HEADERS_TIMEOUT_S = 10.0
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where calls are passed on to, and the key for that."""

    url: str
    token: str | None


class ToolProxy:
    """Serves on a free loopback port for as long as the block lasts."""

    def __init__(self, gateway: Gateway, tools: Collection[str]) -> None:
        self.gateway, self.tools = gateway, frozenset(tools)
        self.key = secrets.token_urlsafe(32)
        self.calls = threading.BoundedSemaphore(MAX_CALLS)
        self._serving = False
        self._server = _Server(self)

    @property
    def url(self) -> str:
        """Where the script finds it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        """Begin to answer; connections that were made before are answered now."""
        self._serving = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._serving:
            self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: ToolProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: the script hung up, or another program sent what is not HTTP."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = _HEADERS_TIMEOUT_S

    def do_POST(self) -> None:
        """Pass the call on; see `http.server.BaseHTTPRequestHandler`."""
        proxy = cast("_Server", self.server).proxy
        given = self.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {proxy.key}".encode()):
            self._refuse(401, "AccessError", "this address answers only the script it is for")
            return
        tool = unquote(self.path.removeprefix(_PREFIX))
        if not self.path.startswith(_PREFIX) or tool not in proxy.tools:
            self._refuse(404, "UnknownNameError", f"this script may not call {tool[:200]!r}")
            return
        size = self.headers.get("content-length", "0")
        if not size.isdecimal() or int(size) > MAX_BODY_BYTES:
            self._refuse(400, "InputError", f"the body is longer than {MAX_BODY_BYTES} bytes")
            return
        with proxy.calls:
            self._pass_on(proxy.gateway, tool, self.rfile.read(int(size)))

    def _pass_on(self, gateway: Gateway, tool: str, body: bytes) -> None:
        parts = urlsplit(gateway.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port)
        path = f"{parts.path.rstrip('/')}{_PREFIX}{quote(tool, safe='')}"
        headers = {"Authorization": f"Bearer {gateway.token}"} if gateway.token else {}
        try:
            connection.request("POST", path, body, {**_JSON, **headers})
            if self._is_waited_for(connection):
                response = connection.getresponse()
                self._answer(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            self._refuse(502, "GatewayMissingError", f"the gateway does not answer: {error}")
        finally:
            connection.close()

    def _is_waited_for(self, connection: http.client.HTTPConnection) -> bool:
        """Wait for the answer; False if the script hangs up first, which cancels the call."""
        assert connection.sock is not None  # noqa: S101 - a request was sent
        with selectors.DefaultSelector() as selector:
            selector.register(connection.sock, selectors.EVENT_READ)
            selector.register(self.connection, selectors.EVENT_READ)
            return any(key.fileobj is connection.sock for key, _ in selector.select())

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._answer(status, json.dumps({"error": message, "type": kind}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        for name, value in {**_JSON, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
