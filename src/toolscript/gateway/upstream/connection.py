"""One MCP server: connected, watched and reconnected by one task.

The task that opened something also closes it, so a server that hangs, floods or dies
affects no other. The state of the connection is a value, and each transition one function:

| phase          | event                                        | next phase     | function    |
| -------------- | -------------------------------------------- | -------------- | ----------- |
| ``waiting``    | the pause is over, or a login has changed    | ``connecting`` | `_begin`    |
| ``connecting`` | the tools are listed; they are listed again  | ``connected``  | `_publish`  |
| any            | an error, also one that ends a request alone | the same       | `_explain`  |
| any            | the connection or the attempt has ended      | ``waiting``    | `_retry`    |
"""

import logging
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import anyio
import anyio.to_thread
import httpx2
import mcp_types
import msgspec
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolscript.config.secret_store import SecretStore
from toolscript.config.settings import GatewaySettings
from toolscript.errors import HeldError, NotConnectedError, RefusedError, UpstreamError, innermost
from toolscript.gateway.base import LAST_WORDS, Caller, Failed, Ready, Report
from toolscript.gateway.catalogue import Catalogue, contents_of
from toolscript.gateway.definitions.comparison import held_message
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.diagnosis import (
    ClosedError,
    answered,
    is_closed,
    is_status_only,
    message,
)
from toolscript.gateway.oauth.login import Login, LoginNeededError
from toolscript.gateway.oauth.pending_logins import PendingLogins
from toolscript.gateway.process.process_reaper import ProcessReaper
from toolscript.gateway.process.stderr_log import StderrLog
from toolscript.gateway.run_policy import Intervals
from toolscript.gateway.upstream.backoff import LASTING_S, Backoff
from toolscript.gateway.upstream.http_outcome import FORGOTTEN
from toolscript.gateway.upstream.other_lists import has_other_lists, other_lists
from toolscript.gateway.upstream.request_router import RequestRouter
from toolscript.gateway.upstream.secret_blanking import SecretBlanking
from toolscript.gateway.upstream.session_factory import LastSession, SessionFactory
from toolscript.gateway.upstream.tool_list_changes import ChangeCount, ToolListChanges
from toolscript.gateway.upstream.tool_listing import answers_listing, list_tools
from toolscript.storage.atomic_files import file_name
from toolscript.storage.base import Records
from toolscript.text.display import first_lines, printable
from toolscript.text.redaction import redact
from toolscript.types import SECRET_VARIABLE, ServerSpec, Transport

log = logging.getLogger(__name__)
LOGIN_POLL_S = 0.25
LISTING_PAUSE_S = 0.5
"""The least time between two listings: a server may report a change at each."""
RETURN_S = 10.0
"""How long requests wait for a remote server that worked and is gone: it may be restarted."""
DRAIN_S = 10.0
"""How long a session that is over is kept for the requests that are still being answered."""
_MAX_REJECTED = 20
_GONE = {401, 403, 404, 500, 502, 503, 504}
"""Statuses of a server that has forgotten the session or has gone away."""
_RIGHTS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_CLIENT_ERROR = 4
_NAMES = {"http": "Streamable HTTP", "sse": "SSE"}
_OTHER_LISTS_CHANGED = (
    mcp_types.PromptListChangedNotification,
    mcp_types.ResourceListChangedNotification,
)


class _State(NamedTuple):
    """The state of a server's connection; `McpUpstream` puts another one in its place."""

    phase: Literal["waiting", "connecting", "connected"] = "waiting"
    login: str | None = None
    """The stamp of the login with which the last attempt was made."""
    needs_login: bool = False
    """Whether the last failure was for want of a login."""
    refused: int = 0
    """The status with which the server refused the last request to connect, or 0."""
    ready_at: float = math.inf
    """When the server listed its tools first; infinite until it has."""

    @property
    def was_ready(self) -> bool:
        """Whether the last attempt made a connection."""
        return self.ready_at < math.inf


@dataclass(eq=False, slots=True)
class _Connection:
    """The facts about one connection, as its task and the callbacks of its session note them."""

    session: LastSession = field(default_factory=lambda: LastSession("stdio", "", ""))
    wake: anyio.Event = field(default_factory=anyio.Event)
    """Set if there is something to do before the next ping."""
    is_closed: bool = False
    has_other_lists: bool = False
    """Whether the lists of prompts and resources are those that the server has now."""
    noise: str = ""
    """The first text on standard output that is not MCP."""
    listed_at: float = -math.inf
    fresh_s: float = 0.0
    """For how many seconds after a listing the server calls its tools valid."""


class McpUpstream:
    """The connection to one server. `run` needs a task for itself; it sends its reports."""

    def __init__(
        self, spec: ServerSpec, report: Callable[[Report], None], shared: "McpConnect"
    ) -> None:
        self._spec = spec
        self._report = report
        self._shared = shared
        apart = f".{spec.digest[:8]}" if spec.project else ""
        self._stderr = StderrLog(shared.logs / f"{file_name(spec.name)}{apart}.log")
        # A secret in the address is all the log-in that it needs.
        names = {name.lower() for name in spec.headers}
        is_stated = "authorization" in names or SECRET_VARIABLE.search(spec.url) is not None
        has_login = spec.transport != "stdio" and not is_stated
        self._login = Login(shared.auth, spec, shared.login_records) if has_login else None
        started = msgspec.structs.replace(spec, cwd=spec.cwd or shared.folder or None)
        self._sessions = SessionFactory(
            started, shared.limits, self._stderr, shared.reaper, self._login, shared.secrets
        )
        self._state = _State()
        self._changes = ChangeCount()
        self._connection = _Connection()
        """That of the last attempt."""
        self._ready = Ready(tools=())
        self._router = RequestRouter(
            spec.name,
            self._sessions.call_s,
            self._explain,
            self._redact,
            check=lambda: self._connection.wake.set(),  # noqa: PLW0108 - the latest one's
            admit=self._admit,
            is_repeatable=self._is_repeatable,
        )
        self._blanking = SecretBlanking(lambda: self._sessions.resolved.stored)

    @property
    def pid(self) -> int | None:
        """See `Upstream.pid`."""
        return self._sessions.pid

    async def run(self) -> None:
        """See `Upstream.run`."""
        backoff, returns_by = Backoff(), -math.inf
        try:
            while True:
                self._begin()
                error = await self._attempt()
                now = anyio.current_time()
                lasted_s, pause_s, is_over = now - self._state.ready_at, 0.0, False
                worked = self._router.has_answered or lasted_s >= LASTING_S
                if worked and self._state.was_ready and self._spec.transport != "stdio":
                    backoff, returns_by = Backoff(), now + RETURN_S
                    is_over = self._router.lost or self._sessions.refused in FORGOTTEN
                retrying = (self._state.was_ready and backoff.lost(lasted_s)) or now < returns_by
                if not is_over:
                    pause_s = backoff.pause()
                await self._retry(Failed(error=error, retry_s=pause_s, retrying=retrying))
        finally:
            self._router.disconnected("its connection was ended", retrying=False)
            self._changes.take_in(self._changes.reported)

    def _begin(self) -> None:
        """Begins an attempt to connect, with the login that is stored now."""
        needs_login = self._state.needs_login
        self._state = _State("connecting", self._login and self._login.stamp, needs_login)

    async def _retry(self, failed: Failed) -> None:
        """Lets requests wait or fail, for the pause or until the user has logged in or out."""
        self._state = self._state._replace(phase="waiting")
        self._changes.take_in(self._changes.reported)
        self._router.disconnected(failed.error, retrying=failed.retrying)
        self._report(failed)
        with anyio.move_on_after(failed.retry_s):
            while self._login is None or self._login.stamp == self._state.login:  # noqa: ASYNC110 - another process logs in
                await anyio.sleep(LOGIN_POLL_S if self._login else math.inf)

    async def send(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """See `Upstream.send`."""
        deadline = anyio.current_time() + self._sessions.connect_s
        while True:
            try:
                result = await self._router.exchange(method, params, caller)
                return await self._blanking.blank_result(result)
            except NotConnectedError as error:
                if not (self._state.needs_login and caller.may_log_in):
                    raise
                if not self._has_new_login or anyio.current_time() > deadline:
                    raise NotConnectedError(f"{error}{await self._invitation(caller)}") from None
            await anyio.sleep(LOGIN_POLL_S)

    @property
    def _has_new_login(self) -> bool:
        """Whether the user has logged in, and it is not known yet whether that suffices."""
        is_other = (self._login and self._login.stamp) != self._state.login
        return is_other or self._state.phase == "connecting"

    async def _invitation(self, caller: Caller) -> str:
        """Begins a login, and returns the instruction for its user; empty if it cannot begin."""
        address = await self._shared.logins.address(self._sessions.resolved.spec)
        if not address:
            return ""
        if caller.opens_addresses:
            text = f"Log in to {self._spec.name}, so that its tools can be called."
            asked = {"mode": "url", "message": text, "url": address, "elicitationId": uuid4().hex}
            with suppress(RefusedError):
                if (await caller.elicit("elicitation/create", asked)).get("action") == "accept":
                    return "; call again once the user has logged in on the page that was shown"
        return f"; to log in, open {address} and then call again"

    async def _attempt(self) -> str:
        """Connects, stays until the connection ends, and returns why it did."""
        last = self._shared.last_sessions.get(self._spec.digest)
        first = last.transport if last else self._spec.transport
        error = await self._connect(first)
        refused = self._state.refused
        is_other = refused // 100 == _CLIENT_ERROR and refused not in _RIGHTS
        if first == "stdio" or self._state.was_ready or not is_other:
            return error
        other: Transport = "http" if first == "sse" else "sse"
        second = await self._connect(other)
        if self._state.was_ready:
            return second
        return f"{error} over {_NAMES[first]}; {second} over {_NAMES[other]}"

    async def _connect(self, transport: Transport) -> str:
        self._state = self._state._replace(refused=0)
        self._connection = connection = _Connection()
        self._changes.take_in(self._changes.reported)
        deadline = anyio.current_time() + self._sessions.connect_s
        # Kept again by a session that works.
        last = self._shared.last_sessions.pop(self._spec.digest, None)
        try:
            with anyio.CancelScope(deadline=deadline) as scope:
                opened = self._sessions.open(
                    transport,
                    self._hear,
                    self._router.elicit,
                    self._note_closed,
                    last_protocol=last.protocol if last else "",
                )
                async with opened as session, anyio.create_task_group() as tasks:
                    changes = ToolListChanges(session, transport)
                    await changes.begin(tasks, self.list_again)
                    connection.session = self._describe(session, transport, last)
                    await self._publish(session)
                    self._shared.last_sessions[self._spec.digest] = connection.session
                    scope.deadline = math.inf
                    with self._router.connected(session):
                        await self._watch(session, changes)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one server does stays with it
            return self._explain(error)
        if scope.cancelled_caught:
            self._state = self._state._replace(needs_login=False)
            return self._with_last_words(f"did not answer within {self._sessions.connect_s:g} s")
        return "the connection ended"

    def _describe(
        self, session: ClientSession, transport: Transport, last: LastSession | None
    ) -> LastSession:
        """Returns the facts about a session that the next one after it needs."""
        info = session.server_info
        version = self._show(f"{info.name} {info.version}", 80) if info else ""
        is_updated = last is not None and last.version != version
        if last is not None and is_updated and last.version:
            log.warning("%s is %s now, and was %s", self._spec.name, version, last.version)
        return LastSession(transport, "" if is_updated else session.protocol_version or "", version)

    async def _publish(self, session: ClientSession) -> None:
        """Lists the server's tools and reports them; from the first time on it is connected."""
        connection, reported = self._connection, self._changes.reported
        listing = await list_tools(session, self._spec)
        definitions = tuple(map(self._blanking.blank_definition, listing.tools))
        reviewed = await anyio.to_thread.run_sync(self._shared.pins.review, self._spec, definitions)
        connection.listed_at, connection.fresh_s = anyio.current_time(), listing.fresh_s
        ready_at = min(self._state.ready_at, connection.listed_at)
        self._state = self._state._replace(phase="connected", needs_login=False, ready_at=ready_at)
        rejected = first_lines(listing.rejected, _MAX_REJECTED)
        self._ready = Ready(
            **contents_of(reviewed),
            **connection.session._asdict(),
            rejected=tuple(map(self._show, rejected)),
            lists=self._ready.lists if has_other_lists(session) else {},
        )
        self._report(self._ready)
        self._changes.take_in(reported)

    async def _admit(self, method: str, params: dict[str, Any]) -> None:
        """Lets a call pass that the last listing allows; raises `HeldError` for a held tool.

        After a notice of changes the call waits until the tools have been listed again.
        """
        if method != "tools/call":
            return
        await self._changes.taken_in()
        for held in self._ready.held:
            if held.tool.name == params.get("name"):
                raise HeldError(held_message(held))

    def _is_repeatable(self, method: str, params: dict[str, Any]) -> bool:
        """Whether a request may be executed twice, as its tool is known only to read: no guess."""
        if method != "tools/call":
            return True
        reads = (tool for tool in self._ready.tools if tool.tool_class == "read")
        return params.get("name") in {t.name for t in reads if t.class_source != "guess"}

    def list_again(self) -> None:
        """See `Upstream.list_again`."""
        self._changes.reported += 1
        self._connection.wake.set()

    async def _publish_other_lists(self, session: ClientSession) -> None:
        self._connection.has_other_lists = True
        lists = self._blanking.blank_lists(await other_lists(session))
        if lists != self._ready.lists:
            self._ready = msgspec.structs.replace(self._ready, lists=lists)
            self._report(self._ready)

    async def _publish_again(self, session: ClientSession) -> None:
        """Lists the tools again, after a pause and within the time to connect: no ping does."""
        await anyio.sleep_until(self._connection.listed_at + LISTING_PAUSE_S)
        with anyio.move_on_after(self._sessions.connect_s) as scope:
            await self._publish(session)
        if scope.cancelled_caught:
            raise UpstreamError(f"did not list its tools within {self._sessions.connect_s:g} s")

    async def _watch(self, session: ClientSession, changes: ToolListChanges) -> None:
        """Lists the tools again when they change, and pings, until the connection ends."""
        connection, intervals = self._connection, self._shared.intervals
        while True:
            if has_other_lists(session) and not connection.has_other_lists:
                await self._publish_other_lists(session)
            pause_s = math.inf if changes.is_notified else max(intervals.poll_s, connection.fresh_s)
            due_at = connection.listed_at + pause_s
            with anyio.move_on_after(min(intervals.ping_s, due_at - anyio.current_time())):
                await connection.wake.wait()
            connection.wake = anyio.Event()
            if connection.is_closed:
                raise ClosedError
            if error := self._router.lost:
                self._report(Failed(error=error, retrying=True))
                with anyio.move_on_after(DRAIN_S):
                    await self._router.idle()
                raise UpstreamError(error)
            if self._changes.is_stale or anyio.current_time() >= due_at:
                await self._publish_again(session)
            else:
                await self._ping(session, intervals.ping_s)
                self._stderr.make_room()

    async def _ping(self, session: ClientSession, timeout_s: float) -> None:
        with anyio.move_on_after(timeout_s) as scope:
            try:
                if session.discover_result is None:
                    await session.send_request(mcp_types.PingRequest(), mcp_types.EmptyResult)
                else:
                    await session.send_discover(session.protocol_version or "")
            except MCPError as error:
                # Any other error is an answer, and so a sign of life.
                if is_closed(error) or self._sessions.refused in _GONE:
                    raise
                if self._sessions.refused and not await answers_listing(session):
                    raise
        if scope.cancelled_caught:
            raise UpstreamError(f"did not answer a ping within {timeout_s:g} s")

    async def _hear(self, message: IncomingMessage) -> None:
        connection = self._connection
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.list_again()
        elif isinstance(message, _OTHER_LISTS_CHANGED):
            connection.has_other_lists = False
            connection.wake.set()
        elif isinstance(message, ValidationError) and not connection.noise:
            connection.noise = self._show(str(message.errors()[0].get("input")), 60)

    def _note_closed(self) -> None:
        self._connection.is_closed = True
        self._connection.wake.set()

    def _show(self, text: str, limit: int = 200) -> str:
        """Returns one line of a server's text, without secrets, nor half of one at its end."""
        return printable(self._redact(text), limit)

    def _redact(self, text: str) -> str:
        return redact(text, self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        return (*self._sessions.resolved.secrets, *(self._login.secrets if self._login else ()))

    def _explain(self, error: BaseException) -> str:
        """Returns one line, without secrets, about a failure.

        Keeps its status, and whether a login would help, which `send` offers then.
        """
        error = innermost(error)
        if isinstance(error, ClosedError) or is_closed(error):
            self._state = self._state._replace(needs_login=False)
            early = "" if self._state.was_ready else " before it was ready"
            return self._with_last_words(f"closed the connection{early}")
        status = self._status_in(error)
        self._state = self._state._replace(
            needs_login=self._login is not None and status == HTTPStatus.UNAUTHORIZED,
            refused=status or self._sessions.refused,
        )
        if status:
            return answered(status, self._spec.name if self._login else "")
        return self._show(message(error), 300) or type(error).__name__

    def _status_in(self, error: BaseException) -> int:
        """Returns the status that an error stands for, or 0."""
        if isinstance(error, LoginNeededError | OAuthFlowError):
            return HTTPStatus.UNAUTHORIZED
        if isinstance(error, httpx2.HTTPStatusError):
            return error.response.status_code
        return self._sessions.refused if is_status_only(error) else 0

    def _with_last_words(self, text: str) -> str:
        """Returns the text, and the server's last words on standard output and error."""
        if noise := self._connection.noise:
            text += f"; it printed {noise!r} on stdout, which is not MCP"
        last = self._show(self._stderr.last_line) if self._spec.transport == "stdio" else ""
        return f"{text}{LAST_WORDS}{last}" if last else text


@dataclass(eq=False)
class McpConnect:
    """Makes the upstreams of one configuration, and holds their shared state; see `Connect`."""

    limits: GatewaySettings
    intervals: Intervals
    data_dir: Path
    config_key: str
    pins: DefinitionPins
    """The definitions that were accepted."""
    secrets: SecretStore
    """The secrets that servers' entries name."""
    known: InitVar[Catalogue]
    """The snapshot of the catalogue."""
    login_records: Records | None = None
    """The storage of logins; None for the data directory."""
    folder: str = ""
    """The working directory of servers whose entry names none; empty for this one."""
    document: str = ""
    """The address of the gateway's description as a client; empty if it has none."""

    def __post_init__(self, known: Catalogue) -> None:
        """Takes the last sessions over from the snapshot."""
        self.logs = self.data_dir / "logs" / "servers" / self.config_key
        self.auth = self.data_dir / "auth"
        self.reaper = ProcessReaper()
        self.last_sessions = {
            entry.digest: LastSession(entry.transport, entry.protocol, entry.version)
            for entry in known.servers.values()
            if entry.transport
        }
        """The last session that worked with each server, by the digest of its entry."""
        self.logins = PendingLogins(self.auth, self.login_records, self.document)

    def __call__(self, spec: ServerSpec, report: Callable[[Report], None]) -> McpUpstream:
        """See `Connect`."""
        return McpUpstream(spec, report, self)

    def close(self) -> None:
        """See `Connect.close`."""
        self.reaper.close()
