"""Forwards a sandboxed script's calls of chosen tools to the gateway, over a loopback port.

The script has its own key, which admits to these calls and nothing else, and
is worthless once this process has ended. The gateway's key stays in this process.
"""

import hmac
import http.server
import json
import secrets
import selectors
import socketserver
import threading
from collections.abc import Collection
from contextlib import closing
from typing import Any, Self, cast
from urllib.parse import quote, unquote

from toolscript.surfaces.cli.gateway_client import RemoteClient, target
from toolscript.surfaces.cli.http_exchange import Exchange

MAX_BODY_BYTES = 4 * 1024 * 1024
"""The gateway's own limit of a request's body."""
MAX_CALLS = 32
"""Calls that are forwarded at the same time; further ones wait."""
_PREFIX = "/tools/"
_HEADERS_TIMEOUT_S = 10.0


class ToolProxy(socketserver.ThreadingTCPServer):
    """Listens on a free loopback port for as long as the ``with`` block lasts."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, gateway: RemoteClient, tools: Collection[str], tool_class: str | None = None
    ) -> None:
        self.tool_class = tool_class
        """The highest class of the tools; None for any."""
        self.gateway, self.tools = gateway, frozenset(tools)
        self.key = secrets.token_urlsafe(32)
        self.calls = threading.BoundedSemaphore(MAX_CALLS)
        self._serving = False
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """The address for the script."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def serve(self) -> None:
        """Begin to answer, including connections that were made before."""
        self._serving = True
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._serving:
            self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints nothing: the script hung up, or another program did not send HTTP."""


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = _HEADERS_TIMEOUT_S

    def do_POST(self) -> None:
        """Forward the call; see `http.server.BaseHTTPRequestHandler`."""
        proxy = cast("ToolProxy", self.server)
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
            self._forward(proxy, tool, self.rfile.read(int(size)))

    def _forward(self, proxy: ToolProxy, tool: str, body: bytes) -> None:
        path = target(f"{_PREFIX}{quote(tool, safe='')}", [("class", proxy.tool_class)])
        try:
            with closing(proxy.gateway.begin("POST", path, body)) as exchange:
                if self._wait_for_answer(exchange):
                    self._answer(exchange.status(), exchange.read())
        except (OSError, ValueError) as error:
            self._refuse(502, "GatewayMissingError", f"the gateway does not answer: {error}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is there
        """Logs nothing: standard error is the script's."""

    def _wait_for_answer(self, exchange: Exchange) -> bool:
        """Returns False if the script hangs up first, which cancels the call."""
        with selectors.DefaultSelector() as selector:
            selector.register(exchange.socket, selectors.EVENT_READ)
            selector.register(self.connection, selectors.EVENT_READ)
            return any(key.fileobj is exchange.socket for key, _ in selector.select())

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._answer(status, json.dumps({"error": message, "type": kind}).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
