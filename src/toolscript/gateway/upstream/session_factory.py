"""Opens sessions with one MCP server: starts or reaches it, and negotiates the protocol."""

import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import httpx2
import mcp_types
import msgspec
from mcp.client.session import ClientSession, ElicitationFnT, MessageHandlerFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolscript.config.secret_store import ResolvedServer, SecretStore, resolve_secrets
from toolscript.config.settings import GatewaySettings
from toolscript.errors import UpstreamError
from toolscript.gateway.diagnosis import is_closed
from toolscript.gateway.oauth.login import Login
from toolscript.gateway.process.process_reaper import ProcessReaper
from toolscript.gateway.process.stderr_log import StderrLog
from toolscript.gateway.process.stdio_transport import process_streams
from toolscript.gateway.upstream.http_responses import BoundedResponses
from toolscript.gateway.upstream.raw_dispatcher import RawDispatcher, ResultRepair
from toolscript.text.display import printable
from toolscript.text.redaction import redact
from toolscript.text.wire_constants import APPS, PAGE_TYPE, TASKS
from toolscript.types import ServerSpec, Transport
from toolscript.version import __version__

DISCOVER_TIMEOUT_S = 5.0
"""How long a server that may not know ``server/discover`` has to say so."""
READ_TIMEOUT_S = 300.0
"""The least timeout for reading a response over HTTP. The library's own 5 s is too short."""
_INSTALL = "install it or give the full path"
_IDENTITY = mcp_types.Implementation(name="toolscript", version=__version__)


class LastSession(NamedTuple):
    """Facts about the last session with a server."""

    transport: Transport
    protocol: str
    """The version of the protocol; empty if the server may speak a newer one."""
    version: str
    """The name and version that the server reports."""


class SessionFactory:
    """Opens sessions with one server, one after the other.

    Args:
        spec: The server.
        limits: Its times and limits count if the server's entry has none.
        stderr: Takes the standard error of a process.
        reaper: Ends processes that are left.
        login: The user's log-in; None if the server needs none.
        store: Has the secrets that the server's entry names.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what one server needs
        self,
        spec: ServerSpec,
        limits: GatewaySettings,
        stderr: StderrLog,
        reaper: ProcessReaper,
        login: Login | None,
        store: SecretStore,
    ) -> None:
        self._spec = spec
        self._store = store
        self.resolved = ResolvedServer(spec)
        """The server, with the secrets with which it was started."""
        self._stderr = stderr
        self._reaper = reaper
        self._login = login
        self._repair = ResultRepair(spec.name)
        self.connect_s = spec.start_timeout_s or limits.connect_timeout_s
        """Seconds in which the server has to answer."""
        self.call_s = spec.call_timeout_s or limits.call_timeout_s
        """Seconds that a call may take."""
        self.pid: int | None = None
        """The id of the server's process while that runs; see `Upstream.pid`."""
        self.refused = 0
        """The status of the last POST if that was an error, or 0."""

    @asynccontextmanager
    async def open(
        self,
        transport: Transport,
        on_message: MessageHandlerFnT,
        on_elicitation: ElicitationFnT,
        on_closed: Callable[[], None],
        *,
        last_protocol: str = "",
    ) -> AsyncGenerator[ClientSession]:
        """Returns a context manager with a session in which the server has answered.

        Args:
            transport: How the server is reached; one over HTTP may also speak ``sse``.
            on_message: Takes notifications, and errors of messages that are none.
            on_elicitation: Answers the server's questions.
            on_closed: Is called once the server has closed the connection.
            last_protocol: The version of the protocol that the server spoke the last time.

        Raises:
            UpstreamError: The server's command or folder, or one of its secrets, is missing.
            SecretStoreError: Its secrets cannot be read.
            MCPError: The server refuses the session.
        """
        self.refused = 0
        self._check_command()
        spec = await anyio.to_thread.run_sync(self._resolve)
        responses = BoundedResponses()
        async with (
            self._streams(spec, transport, responses) as (read, write),
            ClientSession(
                dispatcher=RawDispatcher(read, write, on_closed, responses.restore, self._repair),
                message_handler=on_message,
                elicitation_callback=on_elicitation,
                client_info=_IDENTITY,
                extensions={TASKS: {}, APPS: {"mimeTypes": [PAGE_TYPE]}},  # of our clients
            ) as session,
        ):
            await self._handshake(session, last_protocol)
            yield session

    def _resolve(self) -> ServerSpec:
        """Returns the server with its secrets' values; a keyring may take a while."""
        self.resolved = resolve_secrets(self._spec, self._store)
        self._stderr.hidden = self.resolved.secrets if self.resolved.stored else ()
        return self.resolved.spec

    def _check_command(self) -> None:
        """Raises a clearer error for a server that cannot be started than starting it would."""
        spec = self._spec
        if spec.transport != "stdio":
            return
        if spec.cwd and not Path(spec.cwd).is_dir():
            raise UpstreamError(f"its working directory {self._show(spec.cwd)} does not exist")
        local = Path(spec.cwd or ".") / spec.command if "/" in spec.command else None
        if shutil.which(str(local or spec.command), path=spec.env.get("PATH")):
            return
        has_arguments = " " in spec.command and not spec.args
        advice = "put what follows the program into args" if has_arguments else _INSTALL
        raise UpstreamError(
            f"its command {self._show(spec.command)!r} was not found or may not be run; {advice}"
        )

    def _show(self, text: str) -> str:
        return printable(redact(text, self.resolved.secrets), 200)

    def _streams(self, spec: ServerSpec, transport: Transport, responses: BoundedResponses) -> Any:
        """Returns a context manager that opens the transport, and yields its two streams."""
        if transport == "stdio":
            return process_streams(spec, self._stderr, self._reaper, self._note_pid)
        auth = self._login.refreshing() if self._login and self._login.exists else None
        if transport == "sse":
            factory = responses.client
            return sse_client(spec.url, spec.headers, auth=auth, httpx_client_factory=factory)
        timeout = httpx2.Timeout(self.connect_s, read=max(READ_TIMEOUT_S, self.call_s))
        client = responses.client(spec.headers, timeout, auth)
        client.event_hooks["response"].append(self._note_status)
        return _http_streams(spec.url, client)

    def _note_pid(self, pid: int | None) -> None:
        self.pid = pid

    async def _note_status(self, response: httpx2.Response) -> None:
        """Keeps the status of a refusal: the library answers it with an error that lacks it."""
        if response.request.method == "POST":
            self.refused = response.status_code if response.is_error else 0

    async def _handshake(self, session: ClientSession, last_protocol: str) -> None:
        # A server over HTTP may be replaced by a newer one unnoticed, and refuses at once.
        is_older = self._spec.transport == "stdio" and last_protocol in HANDSHAKE_PROTOCOL_VERSIONS
        refusal: MCPError | None = None
        if self._spec.protocol == "auto" and not is_older:
            with anyio.move_on_after(min(DISCOVER_TIMEOUT_S, self.connect_s / 3)):
                refusal = await _discover(session)
        if session.discover_result is not None:
            return
        needs_login = self.refused == HTTPStatus.UNAUTHORIZED
        try:
            await _initialize(session)
        except MCPError:
            if refusal and needs_login:  # a newer server refuses this from any client
                self.refused = HTTPStatus.UNAUTHORIZED
                raise refusal from None
            raise


@asynccontextmanager
async def _http_streams(url: str, client: httpx2.AsyncClient) -> AsyncGenerator[Any]:
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams


async def _discover(session: ClientSession) -> MCPError | None:
    """Speaks the newest protocol if the server does; older servers refuse it in many ways.

    Returns the server's refusal.
    """
    try:
        await session.discover()
    except MCPError as error:
        if is_closed(error):
            raise
        return error
    except (ValidationError, RuntimeError, msgspec.MsgspecError):
        return None
    return None


async def _initialize(session: ClientSession) -> None:
    """Speaks the older protocol, unless the server says that it no longer does.

    A server that was slow to start has answered the discovery after its timeout, and
    from then on speaks only the newest protocol.
    """
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != mcp_types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
