"""Logging in: the user is sent to a page, and comes back to an address of this machine."""

import hmac
import html
import http.server
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult

from toolscript.errors import UpstreamError
from toolscript.gateway.diagnosis import message
from toolscript.gateway.oauth.login import Login
from toolscript.text import printable, redact
from toolscript.types import ServerSpec

PATIENCE_S = 300.0
"""How long a user may take to log in."""
_REQUEST_TIMEOUT_S = 5.0
_PATH = "/callback"
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "toolscript", "version": "0"},
    },
}


def log_out(directory: Path, spec: ServerSpec) -> bool:
    """Forget the tokens; whether there were any."""
    return Login(directory, spec).forget()


def log_in(directory: Path, spec: ServerSpec, show: Callable[[str], None]) -> None:
    """Have the user log in, and keep the tokens. Raises `UpstreamError` where that fails."""
    login = Login(directory, spec)
    with _Back(spec.oauth.callback_port if spec.oauth else 0) as back:
        try:
            status, done = anyio.run(_attempt, spec, login, _Browser(back, show))
        except (OAuthFlowError, httpx2.HTTPError, OSError, ValueError) as error:
            said = printable(redact(message(error), (*spec.secrets, *login.secrets)), 300)
            raise UpstreamError(f"logging in to {spec.name} failed: {said}") from None
    if not done:
        raise UpstreamError(
            f"{spec.name} asks for no login (it answered HTTP {status}); nothing was kept"
        )


async def _attempt(spec: ServerSpec, login: Login, browser: "_Browser") -> tuple[int, bool]:
    """Send a request that makes the server ask for a login, and store what comes of it.

    Returns the status of the last answer, and whether there was a login.
    """
    headers = {**spec.headers, "Accept": "application/json, text/event-stream"}
    method = "GET" if spec.transport == "sse" else "POST"
    body: Any = None if spec.transport == "sse" else _HELLO
    async with (
        httpx2.AsyncClient(auth=login.interactive(browser), headers=headers, timeout=30) as client,
        client.stream(method, spec.url, json=body) as response,
    ):
        return response.status_code, await login.commit()


class _Browser:
    """See `Redirect`."""

    def __init__(self, back: "_Back", show: Callable[[str], None]) -> None:
        self._back = back
        self._show = show

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._back.port}{_PATH}"

    async def send(self, url: str) -> None:
        [self._back.state] = parse_qs(urlsplit(url).query)["state"]
        await anyio.to_thread.run_sync(self._show, url)

    async def back(self) -> AuthorizationCodeResult:
        found = await anyio.to_thread.run_sync(self._back.wait, abandon_on_cancel=True)
        if "code" not in found:
            why = found.get("error_description") or found.get("error") or "no code came back"
            raise OAuthFlowError(why)
        return AuthorizationCodeResult(
            code=found["code"], state=found.get("state"), iss=found.get("iss")
        )


class _Back:
    """A web server for the one request with which the user's browser comes back.

    It takes only a request with the ``state`` that the user was sent away with, and
    serves every connection by itself: browsers open some that they do not use.

    Raises `UpstreamError` where another program has the port.
    """

    def __init__(self, port: int) -> None:
        self._wanted_port = port
        self.state = ""
        self.found: dict[str, str] = {}
        self.is_back = threading.Event()

    def __enter__(self) -> Self:
        back = self

        class Handler(_Handler):
            def take(self, query: dict[str, str]) -> bool:
                return back.take(query)

        try:
            self._server = http.server.ThreadingHTTPServer(
                ("127.0.0.1", self._wanted_port), Handler
            )
        except OSError as error:
            raise UpstreamError(
                f"the browser cannot come back to port {self._wanted_port}, as oauth.callbackPort "
                f"has it: {error.strerror or error}"
            ) from None
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_port

    def take(self, query: dict[str, str]) -> bool:
        """Whether it is the user who comes back."""
        if not self.state or not hmac.compare_digest(
            query.get("state", "").encode(), self.state.encode()
        ):
            return False
        self.found = self.found or query
        self.is_back.set()
        return True

    def wait(self) -> dict[str, str]:
        """What the browser brings; nothing after `PATIENCE_S`."""
        self.is_back.wait(PATIENCE_S)
        return self.found


class _Handler(http.server.BaseHTTPRequestHandler):
    """Takes the answer, and says that the page can be closed."""

    timeout = _REQUEST_TIMEOUT_S

    def take(self, query: dict[str, str]) -> bool:
        """See `_Back.take`."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Any other path is not for us: a browser also asks for an icon."""
        parts = urlsplit(self.path)
        query = {name: each[0] for name, each in parse_qs(parts.query).items()}
        if parts.path != _PATH or not self.take(query):
            self.send_error(404)
            return
        done = "You are logged in." if "code" in query else "The login has failed."
        page = f"<p>{html.escape(done)} You can close this page.</p>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is there
        """Says nothing: the address holds the code."""
