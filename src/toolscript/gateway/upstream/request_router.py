"""Passing requests on to one server, for whoever asks, over the connection its task owns.

What a server answers is handed back as it came. What it asks meanwhile (for
input of a user's) goes to the caller whose request is under way; the protocol
does not say which that is, so where several are, nobody is asked. A question names
its server, and one for a secret is declined: see `elicitation`.
"""

import json
import logging
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import anyio
import mcp_types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import RootModel

from toolscript.errors import (
    CallTimeoutError,
    NotConnectedError,
    RefusedError,
    UpstreamError,
)
from toolscript.gateway.base import CANNOT_BE_ASKED, Caller
from toolscript.gateway.diagnosis import is_closed, is_unsaid
from toolscript.gateway.upstream.elicitation import (
    DECLINED,
    METHOD,
    URL_NEEDED,
    attributed,
    secret_asked_for,
)
from toolscript.gateway.upstream.tool_listing import PassedResultError
from toolscript.text import printable

log = logging.getLogger(__name__)
_Raw: TypeAlias = dict[str, Any]
_MAX_ROUNDS = 10
"""So often a server may ask for input before it answers one request."""
MAX_TIMEOUTS = 12
"""A request that is kept alive by progress ends after so many of its timeouts."""


class _Result(RootModel[_Raw]):
    """A result that keeps every field, those the SDK does not know included."""


@dataclass(eq=False, slots=True)
class _PendingRequest:
    """One request under way; its time runs while the server works, not while a user thinks."""

    caller: Caller
    timeout_s: float
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ends_at: float = math.inf
    """However much progress is told."""

    def begin(self) -> None:
        """Let the time run: there is a connection."""
        self.ends_at = anyio.current_time() + MAX_TIMEOUTS * self.timeout_s
        self.wind()

    @property
    def is_over(self) -> bool:
        """Whether it has taken all the time there is."""
        return anyio.current_time() >= self.ends_at

    def wind(self) -> None:
        """Start the time anew: the server has shown that it works."""
        self.scope.deadline = min(anyio.current_time() + self.timeout_s, self.ends_at)

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.wind()
        await self.caller.on_progress(progress, total, message)

    async def elicit(self, method: str, params: _Raw) -> _Raw:
        asked_at, self.scope.deadline = anyio.current_time(), math.inf
        try:
            return await self.caller.elicit(method, params)
        finally:
            self.ends_at += anyio.current_time() - asked_at
            self.wind()


class RequestRouter:
    """One server's requests. Its connection comes and goes; `connected` says while there is one."""

    def __init__(
        self,
        server: str,
        timeout_s: float,
        describe: Callable[[BaseException], str],
        redact: Callable[[str], str],
        check: Callable[[], None],
    ) -> None:
        self._server = server
        self._timeout_s = timeout_s
        self._describe = describe
        self._redact = redact
        self._check = check
        self._session: ClientSession | None = None
        self._down = ""
        self._turn = anyio.Event()
        self._flights: set[_PendingRequest] = set()
        self._warned = False

    @contextmanager
    def connected(self, session: ClientSession) -> Generator[None]:
        """Requests go over this session for as long as the block lasts."""
        self._session = session
        self._notify("")
        try:
            yield
        finally:
            self._session = None

    def disconnected(self, error: str, *, hopeful: bool) -> None:
        """There is no connection; where none is hoped for soon, nobody waits for one."""
        self._notify("" if hopeful else error)

    async def request(self, method: str, params: _Raw, caller: Caller) -> _Raw:
        """See `Upstream.request`."""
        flight = _PendingRequest(caller, self._timeout_s)
        flight.wind()
        with flight.scope:
            session = await self._connection()
            flight.begin()
            self._flights.add(flight)
            try:
                return await self._answered(session, method, params, flight)
            except PassedResultError as passed:
                return passed.result
            except MCPError as error:
                raise self._refusal(error) from None
            except UpstreamError:
                raise
            except Exception as error:  # noqa: BLE001 - the boundary: whatever one server does stays with it
                raise UpstreamError(f"{self._server}: {self._describe(error)}") from None
            finally:
                self._flights.discard(flight)
        what = params.get("name") or params.get("uri") or method
        patience_s = self._timeout_s * (MAX_TIMEOUTS if flight.is_over else 1)
        raise CallTimeoutError(
            f"{self._server} did not answer {what} within {patience_s:g} s; "
            "allow it more with its callTimeout, or TOOLSCRIPT_CALL_TIMEOUT for all"
        )

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer the server's ``elicitation/create``: what the caller's user says."""
        del context
        raw = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        try:
            answer = await self._ask(self._asked(), METHOD, raw)
            return mcp_types.ElicitResult.model_validate(answer)
        except RefusedError as refusal:
            return mcp_types.ErrorData(code=refusal.code, message=refusal.said, data=refusal.data)

    async def _answered(
        self, session: ClientSession, method: str, params: _Raw, flight: _PendingRequest
    ) -> _Raw:
        """The result; where a server asks in it for input that the caller does not, that is got."""
        for _ in range(_MAX_ROUNDS):
            request = mcp_types.Request[_Raw, str](method=method, params=params)
            answer = await session.send_request(
                request, _Result, progress_callback=flight.on_progress
            )
            result = answer.root
            if result.get("resultType") != "input_required":
                return result
            asked: dict[str, _Raw] = result.get("inputRequests") or {}
            wants_a_secret = any(map(_wants_a_secret, asked.values()))
            if flight.caller.accepts_input_required and not wants_a_secret:
                marked = {key: self._attributed(each) for key, each in asked.items()}
                return {**result, "inputRequests": marked} if asked else result
            params = {**params, "inputResponses": await self._inputs(asked, flight)}
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise UpstreamError(f"{self._server} asked for input {_MAX_ROUNDS} times without answering")

    async def _inputs(self, asked: dict[str, _Raw], flight: _PendingRequest) -> dict[str, _Raw]:
        """The answers to the questions in a result, one after the other."""
        if not asked:
            await anyio.sleep(0.1)  # the server only wants to be asked again
        return {
            key: await self._ask(flight, each["method"], each.get("params") or {})
            for key, each in asked.items()
        }

    async def _ask(self, flight: _PendingRequest, method: str, params: _Raw) -> _Raw:
        """What the user answers. A question for a secret is declined in the user's place."""
        question = {"method": method, "params": params}
        if _wants_a_secret(question):
            what = printable(secret_asked_for(params), 60)
            log.log(
                logging.DEBUG if self._warned else logging.WARNING,
                "%s asks its user for what looks like a secret (%s); declined",
                self._server,
                what,
            )
            self._warned = True
            return DECLINED
        return await flight.elicit(method, self._attributed(question)["params"])

    def _attributed(self, question: _Raw) -> _Raw:
        if question.get("method") != METHOD:
            return question
        params = attributed(self._server, question.get("params") or {}, self._redact)
        return {**question, "params": params}

    async def _connection(self) -> ClientSession:
        while self._session is None:
            if self._down:
                raise NotConnectedError(
                    f"{self._server} is not connected ({self._down}); it is tried again by itself"
                )
            await self._turn.wait()
        return self._session

    def _asked(self) -> _PendingRequest:
        """A request of the only user that a question of the server's can be meant for."""
        flights = list(self._flights)
        if flights and len({id(flight.caller.session_key) for flight in flights}) == 1:
            return flights[0]
        several = "requests of several users are under way, and nobody knows who is meant"
        raise RefusedError(several if flights else "no request is under way", CANNOT_BE_ASKED)

    def _refusal(self, error: MCPError) -> UpstreamError:
        if is_closed(error) or is_unsaid(error):
            self._check()
            return NotConnectedError(f"{self._server}: {self._describe(error)}")
        said, data = self._redact(error.message), error.data
        if error.code == URL_NEEDED and isinstance(data, dict):
            data = self._addresses(cast("_Raw", data))
        else:
            data = self._blanked(data)
        return RefusedError(f"{self._server}: {said}", error.code, said, data)

    def _blanked(self, data: Any) -> Any:
        """The data of an error without secrets; nothing where that leaves no JSON."""
        try:
            return None if data is None else json.loads(self._redact(json.dumps(data)))
        except ValueError:
            return None

    def _addresses(self, data: _Raw) -> _Raw:
        """What a user is to open first, each with the name of the server that wants it."""
        asked: Any = data.get("elicitations")
        if not isinstance(asked, list):
            return data
        questions = [cast("_Raw", q) for q in cast("list[Any]", asked) if isinstance(q, dict)]
        marked = [attributed(self._server, each, self._redact) for each in questions]
        return {**data, "elicitations": marked}

    def _notify(self, down: str) -> None:
        self._down = down
        self._turn.set()
        self._turn = anyio.Event()


def _wants_a_secret(question: _Raw) -> bool:
    asks = question.get("method") == METHOD
    return asks and bool(secret_asked_for(question.get("params") or {}))
