"""One MCP server: connected, watched and reconnected by one task.

The task that opened something also closes it, so a server that hangs, floods or dies
affects no other.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
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
from toolscript.gateway.upstream.tool_list_changes import ToolListChanges
from toolscript.gateway.upstream.tool_listing import answers_listing, list_tools
from toolscript.storage.atomic_files import file_name
from toolscript.storage.base import Records
from toolscript.text.display import first_lines, printable
from toolscript.text.redaction import redact
from toolscript.types import SECRET_VARIABLE, ServerSpec, Transport

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


class McpUpstream:
    """The connection to one server. `run` needs a task for itself; it sends its reports."""

    def __init__(
        self, spec: ServerSpec, report: Callable[[Report], None], shared: "McpConnect"
    ) -> None:
        self._spec = spec
        self._report = report
        self._shared = shared
        limits = shared.limits
        self._ping_s, self._poll_s = shared.intervals.ping_s, shared.intervals.poll_s
        apart = f".{spec.digest[:8]}" if spec.project else ""
        self._stderr = StderrLog(shared.logs / f"{file_name(spec.name)}{apart}.log")
        # A secret in the address is all the log-in that it needs.
        names = {name.lower() for name in spec.headers}
        is_stated = "authorization" in names or SECRET_VARIABLE.search(spec.url) is not None
        has_login = spec.transport != "stdio" and not is_stated
        self._login = Login(shared.auth, spec, shared.login_records) if has_login else None
        started = msgspec.structs.replace(spec, cwd=spec.cwd or shared.folder or None)
        self._sessions = SessionFactory(
            started, limits, self._stderr, shared.reaper, self._login, shared.secrets
        )
        self._is_connecting = False
        self._tried_login: str | None = None
        """The stamp of the login with which the last attempt was made."""
        self._needs_login = False
        """Whether the last attempt failed for want of a login."""
        self._wake = anyio.Event()
        self._is_closed = False
        self._changes = self._listed_changes = 0
        """How many changes of its tools the server has reported, and how many were there before
        the last listing began."""
        self._ready = Ready(tools=())
        self._listed = anyio.Event()
        """Set at the end of a listing, or of the connection."""
        self._has_other_lists = False
        """Whether the lists of prompts and resources are those that the server has now."""
        self._noise = ""
        self._status = 0
        """The status with which the server refused the last attempt to connect, or 0."""
        self._ready_at = math.inf
        self._listed_at = -math.inf
        self._fresh_s = 0.0
        """For how many seconds after a listing the server calls its tools valid."""
        self._session = LastSession(spec.transport, "", "")
        self._router = RequestRouter(
            spec.name,
            self._sessions.call_s,
            self._note_failure,
            self._redact,
            check=self._wake_up,
            admit=self._admit,
            is_repeatable=self._is_repeatable,
        )
        self._blanking = SecretBlanking(lambda: self._sessions.resolved.stored)

    @property
    def _is_stale(self) -> bool:
        """Whether the tools may have changed since they were listed."""
        return self._listed_changes < self._changes

    @property
    def _was_ready(self) -> bool:
        return self._ready_at < math.inf

    @property
    def pid(self) -> int | None:
        """See `Upstream.pid`."""
        return self._sessions.pid

    async def run(self) -> None:
        """See `Upstream.run`."""
        backoff, returns_by = Backoff(), -math.inf
        try:
            while True:
                self._ready_at = math.inf
                self._is_connecting, self._tried_login = True, self._login and self._login.stamp
                error = await self._attempt()
                self._is_connecting = False
                self._note_listed(self._changes)
                now = anyio.current_time()
                lasted_s, pause_s = now - self._ready_at, 0.0
                worked = self._router.has_answered or lasted_s >= LASTING_S
                if worked and self._was_ready and self._spec.transport != "stdio":
                    backoff, returns_by = Backoff(), now + RETURN_S
                    is_over = self._router.lost or self._sessions.refused in FORGOTTEN
                else:
                    is_over = False
                retrying = (self._was_ready and backoff.lost(lasted_s)) or now < returns_by
                if not is_over:
                    pause_s = backoff.pause()
                self._router.disconnected(error, retrying=retrying)
                self._report(Failed(error=error, retry_s=pause_s, retrying=retrying))
                await self._wait_before_retry(pause_s)
        finally:
            self._router.disconnected("its connection was ended", retrying=False)
            self._note_listed(self._changes)

    async def _wait_before_retry(self, pause_s: float) -> None:
        """Waits so long, or until the user has logged in or out."""
        with anyio.move_on_after(pause_s):
            while self._login is None or self._login.stamp == self._tried_login:  # noqa: ASYNC110 - another process logs in
                await anyio.sleep(LOGIN_POLL_S if self._login else math.inf)

    async def send(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """See `Upstream.send`."""
        deadline = anyio.current_time() + self._sessions.connect_s
        while True:
            try:
                result = await self._router.exchange(method, params, caller)
                return await self._blanking.blank_result(result)
            except NotConnectedError as error:
                if not (self._needs_login and caller.may_log_in):
                    raise
                if not self._has_new_login or anyio.current_time() > deadline:
                    raise NotConnectedError(f"{error}{await self._invitation(caller)}") from None
            await anyio.sleep(LOGIN_POLL_S)

    @property
    def _has_new_login(self) -> bool:
        """Whether the user has logged in, and it is not known yet whether that suffices."""
        return self._is_connecting or (self._login and self._login.stamp) != self._tried_login

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
        is_other = self._status // 100 == _CLIENT_ERROR and self._status not in _RIGHTS
        if first == "stdio" or self._was_ready or not is_other:
            return error
        other: Transport = "http" if first == "sse" else "sse"
        second = await self._connect(other)
        if self._was_ready:
            return second
        return f"{error} over {_NAMES[first]}; {second} over {_NAMES[other]}"

    async def _connect(self, transport: Transport) -> str:
        self._noise, self._wake, self._status = "", anyio.Event(), 0
        self._is_closed = self._has_other_lists = False
        self._listed_changes = self._changes
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
                    self._session = self._describe(session, transport, last)
                    await self._publish(session)
                    self._shared.last_sessions[self._spec.digest] = self._session
                    scope.deadline = math.inf
                    with self._router.connected(session):
                        await self._watch(session, changes)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one server does stays with it
            return self._note_failure(error)
        if scope.cancelled_caught:
            self._needs_login = False
            return self._explain(f"did not answer within {self._sessions.connect_s:g} s")
        return "the connection ended"

    def _describe(
        self, session: ClientSession, transport: Transport, last: LastSession | None
    ) -> LastSession:
        """Returns the facts about a session that the next one after it needs."""
        info = session.server_info
        version = self._show(f"{info.name} {info.version}", 80) if info else ""
        is_updated = last is not None and last.version != version
        return LastSession(transport, "" if is_updated else session.protocol_version or "", version)

    async def _publish(self, session: ClientSession) -> None:
        changes = self._changes
        listing = await list_tools(session, self._spec)
        self._fresh_s = listing.fresh_s
        definitions = tuple(map(self._blanking.blank_definition, listing.tools))
        reviewed = await anyio.to_thread.run_sync(self._shared.pins.review, self._spec, definitions)
        self._listed_at = anyio.current_time()
        self._ready_at = min(self._ready_at, self._listed_at)
        lists = self._ready.lists if has_other_lists(session) else {}
        rejected = first_lines(listing.rejected, _MAX_REJECTED)
        self._ready = Ready(
            **contents_of(reviewed),
            **self._session._asdict(),
            rejected=tuple(map(self._show, rejected)),
            lists=lists,
        )
        self._needs_login = self._is_connecting = False
        self._report(self._ready)
        self._note_listed(changes)

    async def _admit(self, method: str, params: dict[str, Any]) -> None:
        """Lets a call pass that the last listing allows; raises `HeldError` for a held tool.

        After a notice of changes the call waits until the tools have been listed again.
        """
        if method != "tools/call":
            return
        known = self._changes  # those after the call do not count: there may be no end of them
        while self._listed_changes < known:
            await self._listed.wait()
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
        self._changes += 1
        self._wake_up()

    async def _publish_other_lists(self, session: ClientSession) -> None:
        self._has_other_lists = True
        lists = self._blanking.blank_lists(await other_lists(session))
        if lists != self._ready.lists:
            self._ready = msgspec.structs.replace(self._ready, lists=lists)
            self._report(self._ready)

    async def _publish_again(self, session: ClientSession) -> None:
        """Lists the tools again, after a pause and within the time to connect: no ping does."""
        await anyio.sleep_until(self._listed_at + LISTING_PAUSE_S)
        with anyio.move_on_after(self._sessions.connect_s) as scope:
            await self._publish(session)
        if scope.cancelled_caught:
            raise UpstreamError(f"did not list its tools within {self._sessions.connect_s:g} s")

    async def _watch(self, session: ClientSession, changes: ToolListChanges) -> None:
        """Lists the tools again when they change, and pings, until the connection ends."""
        while True:
            if has_other_lists(session) and not self._has_other_lists:
                await self._publish_other_lists(session)
            pause_s = math.inf if changes.is_notified else max(self._poll_s, self._fresh_s)
            due_at = self._listed_at + pause_s
            with anyio.move_on_after(min(self._ping_s, due_at - anyio.current_time())):
                await self._wake.wait()
            self._wake = anyio.Event()
            if self._is_closed:
                raise ClosedError
            if error := self._router.lost:
                self._report(Failed(error=error, retrying=True))
                with anyio.move_on_after(DRAIN_S):
                    await self._router.idle()
                raise UpstreamError(error)
            if self._is_stale or anyio.current_time() >= due_at:
                await self._publish_again(session)
            else:
                await self._ping(session)
                self._stderr.make_room()

    async def _ping(self, session: ClientSession) -> None:
        with anyio.move_on_after(self._ping_s) as scope:
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
            raise UpstreamError(f"did not answer a ping within {self._ping_s:g} s")

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self.list_again()
        elif isinstance(message, _OTHER_LISTS_CHANGED):
            self._has_other_lists = False
            self._wake_up()
        elif isinstance(message, ValidationError) and not self._noise:
            self._noise = self._show(str(message.errors()[0].get("input")), 60)

    def _note_listed(self, changes: int) -> None:
        """Lets the calls go on that wait for a listing: it has taken in so many changes."""
        self._listed_changes = changes
        self._listed.set()
        self._listed = anyio.Event()

    def _note_closed(self) -> None:
        self._is_closed = True
        self._wake_up()

    def _wake_up(self) -> None:
        self._wake.set()

    def _show(self, text: str, limit: int = 200) -> str:
        """Returns one line of a server's text, without secrets, nor half of one at its end."""
        return printable(self._redact(text), limit)

    def _redact(self, text: str) -> str:
        return redact(text, self._secrets())

    def _secrets(self) -> tuple[str, ...]:
        return (*self._sessions.resolved.secrets, *(self._login.secrets if self._login else ()))

    def _note_failure(self, error: BaseException) -> str:
        """Returns one line, without secrets, about the failure.

        Keeps whether a log-in would help, which `request` offers then.
        """
        error = innermost(error)
        if isinstance(error, ClosedError) or is_closed(error):
            self._needs_login = False
            early = "" if self._was_ready else " before it was ready"
            return self._explain(f"closed the connection{early}")
        status = self._status_in(error)
        self._status = status or self._sessions.refused
        self._needs_login = self._login is not None and status == HTTPStatus.UNAUTHORIZED
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

    def _explain(self, text: str) -> str:
        """Returns the text, and the server's last words on standard output and error."""
        if self._noise:
            text += f"; it printed {self._noise!r} on stdout, which is not MCP"
        last = self._show(self._stderr.last_line) if self._spec.transport == "stdio" else ""
        return f"{text}{LAST_WORDS}{last}" if last else text


class McpConnect:
    """Makes the upstreams of one configuration, and holds their shared state; see `Connect`.

    Args:
        limits: Times and limits; see `GatewaySettings`.
        intervals: How often a server is asked for something.
        data_dir: The data directory.
        config_key: The key of the configuration.
        pins: The definitions that were accepted.
        secrets: The secrets that servers' entries name.
        known: The snapshot of the catalogue.
        logins: The storage of logins; None for the data directory.
        folder: The working directory of servers whose entry names none; empty for this one.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what upstreams share
        self,
        limits: GatewaySettings,
        intervals: Intervals,
        data_dir: Path,
        config_key: str,
        pins: DefinitionPins,
        secrets: SecretStore,
        known: Catalogue,
        logins: Records | None = None,
        folder: str = "",
        document: str = "",
    ) -> None:
        self.limits, self.intervals = limits, intervals
        self.folder = folder
        self.login_records = logins
        self.pins = pins
        self.logs = data_dir / "logs" / "servers" / config_key
        self.auth = data_dir / "auth"
        self.secrets = secrets
        self.reaper = ProcessReaper()
        self.last_sessions = {
            entry.digest: LastSession(entry.transport, entry.protocol, entry.version)
            for entry in known.servers.values()
            if entry.transport
        }
        """The last session that worked with each server, by the digest of its entry."""
        self.logins = PendingLogins(self.auth, logins, document)

    def __call__(self, spec: ServerSpec, report: Callable[[Report], None]) -> McpUpstream:
        """See `Connect`."""
        return McpUpstream(spec, report, self)

    def close(self) -> None:
        """See `Connect.close`."""
        self.reaper.close()
