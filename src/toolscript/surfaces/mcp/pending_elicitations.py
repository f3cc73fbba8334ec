"""Calls that wait until a client's user has answered a server's question.

A client of the newest protocol cannot be sent a request: a result asks it, and it
repeats its own request with the answers. A server of an older protocol sends its
question in the middle of a call. So the call goes on while its client's request ends
with the question; the repeated request says which call it belongs to, and waits for
the rest of it.
"""

import secrets
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import anyio
from anyio.abc import TaskGroup

from toolscript.errors import RefusedError
from toolscript.gateway.base import CANNOT_BE_ASKED, Caller

_Raw: TypeAlias = dict[str, Any]
PATIENCE_S = 600.0
"""How long a user may take to answer."""
MAX_PENDING = 1_000
_INVALID = -32602
_STATE_PREFIX = "toolscript-"
"""The beginning of states that name a call of ours; other states are the servers'."""


@dataclass(eq=False)
class _Question:
    method: str
    params: _Raw
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: _Raw | None = None


class _PendingCall:
    """One call, which is the `Caller` that its server sees, and its open questions."""

    accepts_input_required = True

    def __init__(self, request: Hashable, caller: Caller) -> None:
        self.request = request
        self.caller = caller
        """The client's request that waits just now: each one brings another caller."""
        self.session_key, self.session_id = caller.session_key, caller.session_id
        self.project, self.may_be_asked = caller.project, caller.may_be_asked
        self.may_log_in, self.opens_addresses = caller.may_log_in, caller.opens_addresses
        self.scope = anyio.CancelScope()
        self.questions: dict[str, _Question] = {}
        self.result: _Raw | None = None
        self.error: Exception | None = None
        self._progressed = anyio.Event()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`. Between two requests no client listens."""
        if not self.questions:
            await self.caller.on_progress(progress, total, message)

    async def elicit(self, method: str, params: _Raw) -> _Raw:
        """See `Caller`."""
        question = _Question(method, params)
        self.questions[str(len(self.questions) + 1)] = question
        self._progressed.set()
        await question.answered.wait()
        if question.answer is None:
            raise RefusedError("the client did not answer what was asked", CANNOT_BE_ASKED)
        return question.answer

    async def run(self, begin: Callable[[Caller], Awaitable[_Raw]]) -> None:
        """Make the call, and set ``result`` or ``error``."""
        with self.scope:
            try:
                self.result = await begin(self)
            except Exception as error:  # noqa: BLE001 - raised again if the client waits
                self.error = error
        if self.scope.cancelled_caught:
            self.error = RefusedError("the call has ended; make it again", _INVALID)
        self._progressed.set()

    async def next(self) -> _Raw | None:
        """Returns the result, or None for a question. Raises what the call has raised."""
        await self._progressed.wait()
        self._progressed = anyio.Event()
        if self.error is not None:
            raise self.error
        return self.result

    def answer(self, answers: Mapping[str, _Raw], caller: Caller) -> None:
        """Continue with the user's answers."""
        questions, self.questions, self.caller = self.questions, {}, caller
        for key, question in questions.items():
            question.answer = answers.get(key)
            question.answered.set()


class PendingElicitations:
    """The calls that wait for an answer. They go on for as long as `run` does."""

    def __init__(self) -> None:
        self._calls: dict[str, _PendingCall] = {}
        self._tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Run the calls until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            await anyio.sleep_forever()

    async def answer(
        self,
        request: Hashable,
        params: Mapping[str, Any],
        caller: Caller,
        begin: Callable[[Caller], Awaitable[_Raw]],
    ) -> _Raw:
        """Returns the result of a client's request, or the questions for its user.

        Only an equal ``request`` continues a call; any other one calls ``begin``. Raises what
        the call raises, and `RefusedError` if the call does not wait any more.
        """
        call = self._find_call(request, params, caller)
        if call is None:
            call = _PendingCall(request, caller)
            assert self._tasks is not None  # noqa: S101 - it runs while there are requests
            self._tasks.start_soon(call.run, begin)
        try:
            result = await call.next()
        except anyio.get_cancelled_exc_class():  # the client has gone
            call.scope.cancel()
            raise
        return self._questions(call) if result is None else result

    def _find_call(
        self, request: Hashable, params: Mapping[str, Any], caller: Caller
    ) -> _PendingCall | None:
        """Returns the call that a request continues; None for a request that begins one."""
        state = str(params.get("requestState") or "")
        if not state.startswith(_STATE_PREFIX):
            return None
        call = self._calls.get(state)
        if call is None or call.request != request:
            raise RefusedError("no such call waits for an answer; make it again", _INVALID)
        del self._calls[state]
        call.scope.deadline = float("inf")
        call.answer(cast("Mapping[str, _Raw]", params.get("inputResponses") or {}), caller)
        return call

    def _questions(self, call: _PendingCall) -> _Raw:
        """Returns the result that asks the client; the call waits for as long as patience lasts."""
        state = f"{_STATE_PREFIX}{secrets.token_urlsafe(16)}"
        call.scope.deadline = anyio.current_time() + PATIENCE_S
        self._calls = {key: each for key, each in self._calls.items() if each.error is None}
        if len(self._calls) >= MAX_PENDING:
            self._calls.pop(next(iter(self._calls))).scope.cancel()
        self._calls[state] = call
        requests = {
            key: {"method": q.method, "params": q.params} for key, q in call.questions.items()
        }
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}
