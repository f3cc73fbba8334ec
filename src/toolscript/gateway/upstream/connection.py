"""One MCP server: connected, watched and reconnected by one task.

Everything that opens is closed in the task that opened it, so a server that
hangs, floods or dies takes nothing else along.
"""

import math
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types
import msgspec
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolscript import __version__
from toolscript.errors import UpstreamError
from toolscript.gateway.base import LAST_WORDS, Caller, Failed, Lost, Ready, Report
from toolscript.gateway.diagnosis import (
    ClosedError,
    answered,
    innermost,
    is_closed,
    is_unauthorized,
    is_unsaid,
    message,
)
from toolscript.gateway.oauth.login import Login, is_login_needed
from toolscript.gateway.process.process_reaper import ProcessReaper
from toolscript.gateway.process.reap import MARK
from toolscript.gateway.process.stderr_log import ErrorLog
from toolscript.gateway.process.stdio_transport import process_streams
from toolscript.gateway.upstream.backoff import Backoff
from toolscript.gateway.upstream.http_responses import IDENTITY, Bodies
from toolscript.gateway.upstream.request_router import RequestRouter
from toolscript.gateway.upstream.tool_list_changes import ToolListChanges
from toolscript.gateway.upstream.tool_listing import ListingDispatcher, list_tools
from toolscript.storage.atomic_files import file_name
from toolscript.text import printable, redact
from toolscript.types import ServerSpec, Transport

DISCOVER_TIMEOUT_S = 5.0
"""How long a server that may not know ``server/discover`` has to say so."""
LOOK_S = 0.25
"""Between two looks whether somebody has logged in."""
LISTING_PAUSE_S = 0.5
"""Between two listings, at least: a server may say at each that its tools have changed."""
_MAX_REJECTED = 20
_LOOKED_AT = 1_000_000
"""Characters of what a server says that are searched for secrets; some hundred are shown."""
_GONE = {401, 403, 404, 500, 502, 503, 504}
"""Statuses of a server that has forgotten the session, or is not there any more."""
_IDENTITY = mcp_types.Implementation(name="toolscript", version=__version__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an upstream is waited for, in seconds, and how much is read of it."""

    connect_s: float = 30.0
    ping_s: float = 15.0
    call_s: float = 300.0
    poll_s: float = 60.0
    message_bytes: int = 8 * 1024 * 1024
    """How long one message of its may be."""


@dataclass(frozen=True, slots=True)
class UpstreamResources:
    """What this machine keeps for one server."""

    log: Path
    """Of its standard error."""
    keeper: ProcessReaper
    turn: anyio.Lock
    """To start a process."""
    login: Login | None
    """None for one that is not asked by way of the network, or with a key that is stated."""


class McpUpstream:
    """The connection to one server. `run` in a task of its own; reports go to ``report``."""

    def __init__(
        self,
        spec: ServerSpec,
        report: Callable[[Report], None],
        limits: Limits,
        around: UpstreamResources,
    ) -> None:
        self._spec = spec
        self._report = report
        self._limits = replace(
            limits,
            connect_s=spec.start_timeout_s or limits.connect_s,
            call_s=spec.call_timeout_s or limits.call_s,
        )
        self._errors = ErrorLog(around.log)
        self._keeper = around.keeper
        self._turn = around.turn
        self._login = around.login
        self._wake = anyio.Event()
        self._stale = False
        self._noise = ""
        self._refused = 0
        self._ready_at = math.inf
        self._listed_at = -math.inf
        self._relay = RequestRouter(
            spec.name, self._limits.call_s, self._described, self._blanked, check=self._wake_up
        )

    @property
    def _was_ready(self) -> bool:
        return self._ready_at < math.inf

    async def run(self) -> None:
        """See `Upstream.run`."""
        try:
            await self._stay()
        finally:
            self._relay.disconnected("its connection was ended", hopeful=False)

    async def _stay(self) -> None:
        backoff = Backoff()
        while True:
            self._ready_at = math.inf
            error = await self._attempt()
            lasted = anyio.current_time() - self._ready_at
            lost = self._was_ready and backoff.lost(lasted)
            pause = backoff.pause()
            self._relay.disconnected(error, hopeful=lost)
            kind = Lost if lost else Failed
            self._report(kind(error=error, retry_s=pause))
            await self._rest(pause)

    async def _rest(self, pause_s: float) -> None:
        """Wait; not any longer once somebody has logged in."""
        if self._login is None:
            await anyio.sleep(pause_s)
            return
        before = self._login.stamp
        with anyio.move_on_after(pause_s):
            while self._login.stamp == before:  # noqa: ASYNC110 - another process logs in
                await anyio.sleep(LOOK_S)

    async def request(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """See `Upstream.request`."""
        return await self._relay.request(method, params, caller)

    async def _attempt(self) -> str:
        """Connect and stay until the connection ends; say why it did."""
        error = await self._connect(self._spec.transport)
        if self._spec.sse_fallback and not self._was_ready and self._refused:
            other = await self._connect("sse")
            return other if self._was_ready else error
        return error

    async def _connect(self, transport: Transport) -> str:
        self._noise, self._refused, self._stale, self._wake = "", 0, False, anyio.Event()
        deadline = anyio.current_time() + self._limits.connect_s
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                self._check()
                async with self._session(transport) as (session, dispatcher):
                    await self._handshake(session, dispatcher)
                    async with anyio.create_task_group() as tasks:
                        news = ToolListChanges(session, transport)
                        await news.begin(tasks, self._note_change)
                        await self._publish(session, dispatcher)
                        scope.deadline = math.inf
                        with self._relay.connected(session):
                            await self._watch(session, dispatcher, news)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one server does stays with it
            return self._described(error)
        if scope.cancelled_caught:
            return self._explained(f"did not answer within {self._limits.connect_s:g} s")
        return "the connection ended"

    def _check(self) -> None:
        """What can be said more clearly before trying than after failing."""
        spec = self._spec
        if spec.transport != "stdio":
            return
        if spec.cwd and not Path(spec.cwd).is_dir():
            raise UpstreamError(f"its working directory {self._shown(spec.cwd)} does not exist")
        path = spec.env.get("PATH")
        base = Path(spec.cwd or ".")
        local = base / spec.command if "/" in spec.command else None
        if not shutil.which(str(local or spec.command), path=path):
            raise UpstreamError(
                f"its command {self._shown(spec.command)!r} was not found or may not be run; "
                "install it or give the full path"
            )

    @asynccontextmanager
    async def _session(
        self, transport: Transport
    ) -> AsyncGenerator[tuple[ClientSession, ListingDispatcher]]:
        async with AsyncExitStack() as stack:
            bodies = Bodies(self._limits.message_bytes)
            read, write = await self._streams(transport, stack, bodies)
            dispatcher = ListingDispatcher(read, write, on_closed=self._wake_up, taken=bodies.taken)
            session = ClientSession(
                dispatcher=dispatcher,
                message_handler=self._hear,
                elicitation_callback=self._relay.elicit,
                client_info=_IDENTITY,
            )
            yield await stack.enter_async_context(session), dispatcher

    async def _streams(self, transport: Transport, stack: AsyncExitStack, bodies: Bodies) -> Any:
        spec = self._spec
        if transport == "stdio":
            stack.enter_context(self._errors.opened())
            mark = await anyio.to_thread.run_sync(self._keeper.mark)
            parameters = StdioServerParameters(
                command=spec.command,
                args=list(spec.args),
                env={**spec.env, MARK: mark} if mark else spec.env,
                cwd=spec.cwd,
                encoding_error_handler="replace",
            )
            limit = self._limits.message_bytes
            streams = process_streams(parameters, self._errors, mark, self._turn, limit)
            return await stack.enter_async_context(streams)
        auth = self._login.refreshing() if self._login and self._login.exists else None
        headers = {**IDENTITY, **spec.headers}
        if transport == "sse":
            streams = sse_client(spec.url, headers, auth=auth, httpx_client_factory=bodies.client)
            return await stack.enter_async_context(streams)
        # The library's own default of 5 s is too short for tools that work.
        timeout = httpx2.Timeout(self._limits.connect_s, read=max(300.0, self._limits.call_s))
        client = bodies.client(headers, timeout, auth)
        client.event_hooks["response"].append(self._note_status)
        await stack.enter_async_context(client)
        streams = streamable_http_client(spec.url, http_client=client)
        return await stack.enter_async_context(streams)

    async def _note_status(self, response: httpx2.Response) -> None:
        """Keep the status of a refusal: the library answers it with an error that lacks it."""
        if response.request.method == "POST":
            self._refused = response.status_code if response.is_error else 0

    async def _handshake(self, session: ClientSession, dispatcher: ListingDispatcher) -> None:
        if self._spec.protocol == "auto":
            patience = min(DISCOVER_TIMEOUT_S, self._limits.connect_s / 3)
            with anyio.move_on_after(patience):
                await _discover(session)
        if session.discover_result is None:
            await _initialize(session)
        dispatcher.version = session.protocol_version or dispatcher.version

    async def _publish(self, session: ClientSession, dispatcher: ListingDispatcher) -> None:
        self._stale = False
        tools, rejected = await list_tools(session, dispatcher, self._spec)
        info = session.server_info
        version = self._shown(f"{info.name} {info.version}", 80) if info else ""
        self._listed_at = anyio.current_time()
        self._ready_at = min(self._ready_at, self._listed_at)
        self._report(Ready(tools=tools, version=version, rejected=self._accounted(rejected)))

    async def _publish_again(self, session: ClientSession, dispatcher: ListingDispatcher) -> None:
        """After a pause, and not for ever: while it lists, a server is not pinged."""
        await anyio.sleep_until(self._listed_at + LISTING_PAUSE_S)
        with anyio.move_on_after(self._limits.connect_s) as scope:
            await self._publish(session, dispatcher)
        if scope.cancelled_caught:
            raise UpstreamError(f"did not list its tools within {self._limits.connect_s:g} s")

    def _accounted(self, rejected: Sequence[str]) -> tuple[str, ...]:
        """The first few lines, and how many more there are."""
        lines = [self._shown(line, 200) for line in rejected[:_MAX_REJECTED]]
        more = len(rejected) - len(lines)
        return (*lines, f"and {more} more") if more else tuple(lines)

    async def _watch(
        self, session: ClientSession, dispatcher: ListingDispatcher, news: ToolListChanges
    ) -> None:
        """Until the connection ends: list again what changed, and make sure of the silent."""
        while not dispatcher.closed:
            look_at = math.inf if news.told else self._listed_at + self._limits.poll_s
            with anyio.move_on_after(min(self._limits.ping_s, look_at - anyio.current_time())):
                await self._wake.wait()
            self._wake = anyio.Event()
            if dispatcher.closed:
                break
            if self._stale or anyio.current_time() >= look_at:
                await self._publish_again(session, dispatcher)
            else:
                await self._ping(session)
                self._errors.make_room()
        raise ClosedError

    async def _ping(self, session: ClientSession) -> None:
        with anyio.move_on_after(self._limits.ping_s) as scope:
            try:
                if session.discover_result is None:
                    await session.send_request(mcp_types.PingRequest(), mcp_types.EmptyResult)
                else:
                    await session.send_discover(session.protocol_version or "")
            except MCPError as error:
                # Any other error is an answer, and so a sign of life.
                if is_closed(error) or self._refused in _GONE:
                    raise
        if scope.cancelled_caught:
            raise UpstreamError(f"did not answer a ping within {self._limits.ping_s:g} s")

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._note_change()
        elif isinstance(message, ValidationError) and not self._noise:
            seen = message.errors()[0].get("input")
            self._noise = self._shown(str(seen), 60)

    def _note_change(self) -> None:
        self._stale = True
        self._wake_up()

    def _wake_up(self) -> None:
        self._wake.set()

    def _shown(self, text: str, limit: int = 200) -> str:
        """One line of what the server says, with no secret in it nor, once cut, half of one."""
        return printable(self._blanked(text[:_LOOKED_AT]), limit)

    def _blanked(self, text: str) -> str:
        secrets = self._login.secrets if self._login else ()
        return redact(text, (*self._spec.secrets, *secrets))

    def _described(self, error: BaseException) -> str:
        """One line about what went wrong, with no secret in it."""
        error = innermost(error)
        if isinstance(error, ClosedError) or is_closed(error):
            early = "" if self._was_ready else " before it was ready"
            return self._explained(f"closed the connection{early}")
        if is_login_needed(error) or is_unauthorized(error):
            return self._refusal(HTTPStatus.UNAUTHORIZED)
        if self._refused and is_unsaid(error):
            return self._refusal(self._refused)
        return self._shown(message(error), 300) or type(error).__name__

    def _refusal(self, status: int) -> str:
        if status == HTTPStatus.UNAUTHORIZED and self._login:
            log_in = f"toolscript auth {self._spec.name}"
            return f"answered HTTP {status:d}; log in with {log_in}, or check its headers"
        return answered(status)

    def _explained(self, text: str) -> str:
        if self._noise:
            text += f"; it printed {self._noise!r} on stdout, which is not MCP"
        last = self._shown(self._errors.last_line) if self._spec.transport == "stdio" else ""
        return f"{text}{LAST_WORDS}{last}" if last else text


class McpConnect:
    """Makes the upstreams of one process; see `Connect`."""

    def __init__(self, limits: Limits, logs: Path, logins: Path) -> None:
        self._limits = limits
        self._logs = logs
        self._logins = logins
        self._keeper = ProcessReaper()
        self._turn = anyio.Lock()

    def __call__(self, spec: ServerSpec, report: Callable[[Report], None]) -> McpUpstream:
        """See `Connect`."""
        log = self._logs / f"{file_name(spec.name)}.log"
        stated = any(name.lower() == "authorization" for name in spec.headers)
        login = None if spec.transport == "stdio" or stated else Login(self._logins, spec)
        return McpUpstream(
            spec, report, self._limits, UpstreamResources(log, self._keeper, self._turn, login)
        )

    def close(self) -> None:
        """See `Connect.close`."""
        self._keeper.close()


async def _discover(session: ClientSession) -> None:
    """Speak the newest protocol, if the server does; one that does not says so in many ways."""
    try:
        await session.discover()
    except MCPError as error:
        if is_closed(error):
            raise
    except (ValidationError, RuntimeError, msgspec.MsgspecError):
        return


async def _initialize(session: ClientSession) -> None:
    """Speak the older protocol, unless the server says that it is past that.

    One that was slow to start has answered the discovery after it was given up,
    and from then on speaks the newest protocol only.
    """
    try:
        await session.initialize()
    except MCPError as error:
        if error.code != mcp_types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        await session.discover()
