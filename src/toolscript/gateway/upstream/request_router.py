"""Routes requests to one server over whichever connection it has, and its questions back.

A server's answers are handed back as they came. Its questions go to the user whose
request is under way. The protocol does not say which request a question belongs to, so
questions are refused while requests of several users are under way.
"""

import json
import logging
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, TypeAlias, cast

import anyio
import mcp_types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError

from toolscript.errors import CallTimeoutError, NotConnectedError, RefusedError, UpstreamError
from toolscript.gateway.base import CANNOT_BE_ASKED, Caller
from toolscript.gateway.diagnosis import CLOSED, CUT, is_closed, is_status_only
from toolscript.gateway.upstream.elicitation import (
    DECLINED,
    METHOD,
    URL_NEEDED,
    attributed,
    secret_asked_for,
)
from toolscript.gateway.upstream.http_outcome import FORGOTTEN, HttpOutcome, record_in
from toolscript.gateway.upstream.raw_dispatcher import send_raw
from toolscript.gateway.upstream.task_polling import CANCEL, GET, UPDATE, wait_for_task
from toolscript.gateway.upstream.tool_listing import answers_listing
from toolscript.text.display import harmless, printable
from toolscript.text.wire_constants import TASK

log = logging.getLogger(__name__)
_Raw: TypeAlias = dict[str, Any]
_MAX_ROUNDS = 10
"""How often a server may ask for input before it answers one request."""
_RECONNECT_S = 0.5
"""Seconds until a task is asked for again after its connection was lost."""
MAX_TIMEOUTS = 12
"""A request that progress keeps alive ends after so many of its timeouts."""


class _TaskRequest(mcp_types.Request[_Raw, str]):
    """A request about a task, whose id goes into a header, too."""

    name_param = "taskId"


@dataclass(eq=False, slots=True)
class _PendingRequest:
    """A request under way; its time runs while the server works, not while a user thinks."""

    caller: Caller
    timeout_s: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ends_at: float = math.inf
    """When it ends, however much progress the server reports."""
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    """Held by the one question that the user has before them."""

    def begin(self) -> None:
        """Starts the time, once there is a connection."""
        latest = anyio.current_time() + MAX_TIMEOUTS * self.timeout_s
        self.ends_at = min(self.ends_at, latest)
        self.reset_timeout()

    def reset_timeout(self) -> None:
        """Gives the server the whole time again."""
        self.scope.deadline = min(anyio.current_time() + self.timeout_s, self.ends_at)

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.reset_timeout()
        await self.caller.on_progress(progress, total, message)

    async def elicit(self, method: str, params: _Raw) -> _Raw:
        asked_at, self.scope.deadline = anyio.current_time(), math.inf
        try:
            async with self.turn:
                return await self.caller.elicit(method, params)
        finally:
            self.ends_at += anyio.current_time() - asked_at
            self.reset_timeout()


class RequestRouter:
    """One server's requests. Its connections come and go; see `connected`."""

    def __init__(  # noqa: PLR0913, PLR0917 - what the connection gives it
        self,
        server: str,
        timeout_s: float,
        describe: Callable[[BaseException], str],
        redact: Callable[[str], str],
        check: Callable[[], None],
        admit: Callable[[str, _Raw], Awaitable[None]],
        is_repeatable: Callable[[str, _Raw], bool],
    ) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._describe = describe
        self._redact = redact
        self._check = check
        self._admit = admit
        self._is_repeatable = is_repeatable
        self._session: ClientSession | None = None
        self._error = ""
        """Why there is no connection, if requests are not to wait for one."""
        self._changed = anyio.Event()
        self._pending: set[_PendingRequest] = set()
        self._warned = False
        self._probing = anyio.Lock()
        self.lost = ""
        """Why the session that was last connected is over; empty while it is not."""
        self.has_answered = False
        """Whether a request was answered since the last connection began."""

    @contextmanager
    def connected(self, session: ClientSession) -> Generator[None]:
        """Sends requests over this session within the block."""
        self._session, self.lost, self.has_answered = session, "", False
        self._notify("")
        try:
            yield
        finally:
            self._session = None

    def disconnected(self, error: str, *, retrying: bool) -> None:
        """Refuses requests with this error, unless a connection is being made at once."""
        self._notify("" if retrying else error)

    async def exchange(self, method: str, params: _Raw, caller: Caller) -> _Raw:
        """Returns the answer of the present session to a request, within its time.

        Raises the errors of `Upstream.send`.
        """
        pending = _PendingRequest(caller, self._timeout_s)
        pending.reset_timeout()
        with pending.scope:
            result = await self._transmit(method, params, pending)
            self.has_answered = True
            if result.get("resultType") == TASK:
                return await self._finish_task(result, pending)
            return result
        name = params.get("name") or params.get("uri") or method
        is_over = anyio.current_time() >= pending.ends_at
        raise CallTimeoutError(
            f"{self._server} did not answer {name} within "
            f"{self._timeout_s * (MAX_TIMEOUTS if is_over else 1):g} s; "
            "allow it more with its callTimeout, or TOOLSCRIPT_CALL_TIMEOUT for all"
        )

    async def _finish_task(self, task: _Raw, pending: _PendingRequest) -> _Raw:
        """Returns the result of a task; its time begins again with each of its states.

        It is asked for again within that time if the connection is lost: the call is not repeated.
        """

        async def send(method: str, params: _Raw) -> _Raw:
            while True:
                try:
                    answer = await self._transmit(method, params, pending)
                except NotConnectedError:
                    if method != GET:
                        raise
                    await anyio.sleep(_RECONNECT_S)
                else:
                    pending.reset_timeout()
                    return answer

        async def report(message: str) -> None:
            await pending.on_progress(next(states), None, message)

        states = count()
        ask = partial(self._inputs, pending=pending)
        try:
            return await wait_for_task(self._server, task, send, ask, report)
        except MCPError as error:
            raise self._refusal(error) from None

    async def idle(self) -> None:
        """Waits until no request is being answered in the session that is over."""
        while self._pending:
            await self._changed.wait()

    async def _transmit(
        self, method: str, params: _Raw, pending: _PendingRequest, *, repeats: bool = True
    ) -> _Raw:
        """Returns the result; ``repeats`` a request once in a new session, if that is safe."""
        session = await self._connection(method, params)
        pending.begin()
        self._pending.add(pending)
        outcome = HttpOutcome()
        try:
            with record_in(outcome):
                return await self._answer(session, method, params, pending)
        except MCPError as error:
            refusal = error
        except UpstreamError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: whatever one server does stays with it
            raise UpstreamError(f"{self._server}: {self._describe(error)}") from None
        finally:
            self._pending.discard(pending)
            self._wake()
        if not await self._is_over(session, refusal, outcome):
            raise self._refusal(refusal)
        names_session = "session" in refusal.message.lower()
        is_undone = outcome.unsent or outcome.status in FORGOTTEN or names_session
        if not repeats or not (is_undone or self._is_repeatable(method, params)):
            raise NotConnectedError(f"{self._server}: {self._redact(str(outcome))}")
        pending.reset_timeout()
        return await self._transmit(method, params, pending, repeats=bool(outcome.unsent))

    async def _is_over(self, session: ClientSession, error: MCPError, outcome: HttpOutcome) -> bool:
        """Whether a request failed because its session is over; it is opened again then.

        A status may be about the request alone, unless the server refuses its listing, too, which
        it answered when the session began.
        """
        if not outcome.may_end_session(error):
            return False
        async with self._probing:
            is_current = session is self._session
            if is_current and (outcome.unsent or not await answers_listing(session)):
                self._session, self.lost = None, self._redact(str(outcome))
                self._check()
        return session is not self._session

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answers the server's ``elicitation/create`` with the answer of the caller's user."""
        del context
        asked = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        question = {"method": METHOD, "params": asked}
        try:
            answer = await self._ask(self._only_pending(), question)
            return mcp_types.ElicitResult.model_validate(answer)
        except RefusedError as refusal:
            return mcp_types.ErrorData(code=refusal.code, message=str(refusal), data=refusal.data)

    async def _answer(
        self, session: ClientSession, method: str, params: _Raw, pending: _PendingRequest
    ) -> _Raw:
        """Returns the result; gets the input that it asks for, unless the caller does that."""
        for _ in range(_MAX_ROUNDS):
            kind = _TaskRequest if method in {GET, UPDATE, CANCEL} else mcp_types.Request[_Raw, str]
            request = kind(method=method, params=params)
            result: _Raw = await send_raw(session, request, pending.on_progress)
            if result.get("resultType") != "input_required":
                return result
            questions: dict[str, _Raw] = result.get("inputRequests") or {}
            wants_a_secret = any(map(secret_asked_for, questions.values()))
            if pending.caller.accepts_input_required and not wants_a_secret:
                marked = {key: self._attribute(question) for key, question in questions.items()}
                return {**result, "inputRequests": marked} if questions else result
            params = {**params, "inputResponses": await self._inputs(questions, pending)}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise UpstreamError(f"{self._server} asked for input {_MAX_ROUNDS} times without answering")

    async def _inputs(
        self, questions: dict[str, _Raw], pending: _PendingRequest
    ) -> dict[str, _Raw]:
        """Asks the questions in a result one after the other, and returns the answers."""
        if not questions:
            await anyio.sleep(0.1)  # the server only wants the request again
        return {key: await self._ask(pending, question) for key, question in questions.items()}

    async def _ask(self, pending: _PendingRequest, question: _Raw) -> _Raw:
        """Returns the user's answer. Declines a question for a secret in the user's place."""
        if secret := secret_asked_for(question):
            log.log(
                logging.DEBUG if self._warned else logging.WARNING,
                "%s asks its user for what looks like a secret (%s); declined",
                self._server,
                printable(secret, 60),
            )
            self._warned = True
            return DECLINED
        marked = self._attribute(question)
        return await pending.elicit(marked["method"], marked.get("params") or {})

    def _attribute(self, question: _Raw) -> _Raw:
        if question.get("method") != METHOD:
            return question
        params = attributed(self._server, question.get("params") or {}, self._redact)
        return {**question, "params": params}

    async def _connection(self, method: str, params: _Raw) -> ClientSession:
        """Waits for a session that admits the request."""
        while True:
            if (session := self._session) is not None:
                await self._admit(method, params)
                if session is self._session:
                    return session
            elif self._error:
                raise NotConnectedError(
                    f"{self._server} is not connected ({self._error}); it is tried again by itself"
                )
            else:
                await self._changed.wait()

    def _only_pending(self) -> _PendingRequest:
        """Returns a request of the only user whom the server's question can be meant for."""
        users = {id(pending.caller.session_key): pending for pending in self._pending}
        if len(users) == 1:
            return next(iter(users.values()))
        several = "requests of several users are under way, and it is unknown which is meant"
        raise RefusedError(several if users else "no request is under way", CANNOT_BE_ASKED)

    def _refusal(self, error: MCPError) -> UpstreamError:
        if is_closed(error) or is_status_only(error):
            self._check()
            reason = self._describe(error).replace(CLOSED, CUT, 1)
            return NotConnectedError(f"{self._server}: {reason}")
        said, data = f"{self._server}: {harmless(self._redact(error.message))}", error.data
        if error.code == URL_NEEDED and isinstance(data, dict):
            data = self._attribute_addresses(cast("_Raw", data))
        else:
            data = self._redact_data(data)
        return RefusedError(said, error.code, data)

    def _redact_data(self, data: Any) -> Any:
        """Returns the data of an error without secrets, or None if that leaves no JSON."""
        try:
            return None if data is None else json.loads(self._redact(json.dumps(data)))
        except ValueError:
            return None

    def _attribute_addresses(self, data: _Raw) -> _Raw:
        """Returns the addresses that a user is to open first, each with the server's name."""
        questions: Any = data.get("elicitations")
        if not isinstance(questions, list):
            return data
        objects = [cast("_Raw", q) for q in cast("list[Any]", questions) if isinstance(q, dict)]
        marked = [attributed(self._server, question, self._redact) for question in objects]
        return {**data, "elicitations": marked}

    def _notify(self, error: str) -> None:
        self._error = error
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
