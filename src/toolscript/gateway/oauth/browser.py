"""Logs the user in: opens a page of the provider, and serves the address that it returns to."""

import hmac
import http.server
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth.exceptions import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.utils import issuers_match, validate_authorization_response_iss
from mcp.shared.auth import AuthorizationCodeResult

from toolscript.errors import UpstreamError
from toolscript.gateway.diagnosis import message
from toolscript.gateway.oauth.login import Login
from toolscript.storage.base import Records
from toolscript.text.display import printable
from toolscript.text.redaction import redact
from toolscript.types import ServerSpec

log = logging.getLogger(__name__)
LOGIN_TIMEOUT_S = 300.0
"""How long a user may take to log in."""
CALLBACK_PATH = "/callback"
_INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "toolscript", "version": "0"},
    },
}
_LIST: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
"""For a server that lets anybody open a session, but no more."""


def log_in(
    directory: Path,
    spec: ServerSpec,
    show: Callable[[str], None],
    records: Records | None = None,
    document: str = "",
) -> None:
    """Has the user log in at the address given to ``show``, and stores the tokens.

    ``directory`` and ``records`` are those of `Login`; at ``document`` a gateway describes us to
    servers. Raises `UpstreamError` if the login fails.
    """
    login = Login(directory, spec, records)
    with _CallbackServer(spec.oauth.callback_port if spec.oauth else 0) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            status, done = anyio.run(_attempt, spec, login, server, show, document)
        except (OAuthFlowError, httpx2.HTTPError, OSError, ValueError) as error:
            reason = printable(redact(message(error), (*spec.secrets, *login.secrets)), 300)
            if isinstance(error, OAuthRegistrationError):
                reason += (
                    "; it registers no clients by itself: state oauth.clientId, "
                    "or a token in headers"
                )
            raise UpstreamError(f"logging in to {spec.name} failed: {reason}") from None
        finally:
            server.shutdown()
    if not done:
        raise UpstreamError(
            f"{spec.name} asks for no login (it answered HTTP {status}); nothing was kept"
        )


async def _attempt(
    spec: ServerSpec,
    login: Login,
    server: "_CallbackServer",
    show: Callable[[str], None],
    document: str,
) -> tuple[int, bool]:
    """Sends requests until the server asks for a login, and stores the login.

    Returns the status of the last answer, and whether there was a login.
    """

    async def send(url: str) -> None:
        if login.last_issuer and not issuers_match(login.last_issuer, auth.issuer):
            now, before = printable(auth.issuer, 200), printable(login.last_issuer, 200)
            log.warning("%s has its logins at %s now, not at %s any more", spec.name, now, before)
        server.state = dict(parse_qsl(urlsplit(url).query))["state"]
        await anyio.to_thread.run_sync(show, url)

    async def wait() -> AuthorizationCodeResult:
        await anyio.to_thread.run_sync(server.is_done.wait, LOGIN_TIMEOUT_S, abandon_on_cancel=True)
        query, metadata = server.query, auth.context.oauth_metadata
        issuer = query.get("iss")
        if issuer and metadata and issuers_match(issuer, str(metadata.issuer)):
            issuer = str(metadata.issuer)
        if "code" not in query:
            validate_authorization_response_iss(issuer, metadata)
            why = query.get("error_description") or query.get("error") or "no code came back"
            raise OAuthFlowError(why)
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=issuer)

    back = f"http://127.0.0.1:{server.server_port}{CALLBACK_PATH}"
    auth = login.interactive(back, send, wait, document)
    headers = {**spec.headers, "Accept": "application/json, text/event-stream"}
    is_sse = spec.transport == "sse"
    status, is_done = 0, False
    async with httpx2.AsyncClient(auth=auth, headers=headers, timeout=30) as client:
        for body in (None,) if is_sse else (_INITIALIZE, _LIST):
            async with client.stream("GET" if is_sse else "POST", spec.url, json=body) as response:
                status, is_done = response.status_code, await login.commit()
            if is_done:
                break
    return status, is_done


class _CallbackServer(http.server.ThreadingHTTPServer):
    """Takes the one request with which the user's browser returns.

    It takes only a request with the ``state`` that the user was sent away with. It has a
    thread for each connection: browsers open some that they do not use.

    Raises `UpstreamError` if another program has the port.
    """

    def __init__(self, port: int) -> None:
        self.state = ""
        self.query: dict[str, str] = {}
        self.is_done = threading.Event()
        try:
            super().__init__(("127.0.0.1", port), _CallbackHandler)
        except OSError as error:
            raise UpstreamError(
                f"the browser cannot come back to port {port}, as oauth.callbackPort "
                f"has it: {error.strerror or error}"
            ) from None

    def expects(self, query: dict[str, str]) -> bool:
        """Returns whether the query of a request has the state."""
        given, state = query.get("state", ""), self.state
        return bool(state) and hmac.compare_digest(given.encode(), state.encode())

    def take(self, query: dict[str, str]) -> None:
        """Ends the wait for the user; the first query that is taken counts."""
        self.query = self.query or query
        self.is_done.set()


class _CallbackHandler(http.server.BaseHTTPRequestHandler):
    """Tells the user that the page can be closed."""

    server: _CallbackServer  # pyright: ignore[reportIncompatibleVariableOverride] - no other makes it
    timeout = 5.0

    def do_GET(self) -> None:
        """Answers any other path with 404: a browser also asks for an icon."""
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query)[::-1])
        if parts.path != CALLBACK_PATH or not self.server.expects(query):
            self.send_error(404)
            return
        try:
            self._send_page("You are logged in." if "code" in query else "The login has failed.")
        finally:  # only now: the process may end with the login
            self.server.take(query)

    def _send_page(self, done: str) -> None:
        page = f"<p>{done} You can close this page.</p>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is there
        """Logs nothing: the address holds the code."""
