"""Calls that are held while a user is asked.

A client of the newest protocol cannot be sent a request: a result asks it, and it
makes its own request again with the answers. A server of an older one sends its
question in the middle of a call. So the call goes on, its client's request ends
with the question, and the next one, which says which call it belongs to, goes on
waiting where that left off.
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
_OURS = "toolscript-"
"""How states begin that name a call held here; others are of the servers behind."""
PATIENCE_S = 600.0
"""A user who takes longer has gone."""
MAX_HELD = 1_000
_INVALID = -32602


@dataclass(eq=False)
class _Question:
    method: str
    params: _Raw
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: _Raw | None = None


class _Call:
    """One call, the `Caller` that its server sees, and what it asks."""

    accepts_input_required = True

    def __init__(self, what: Hashable, caller: Caller) -> None:
        self.what = what
        self.caller = caller
        """Who waits just now: each request of the client's brings another."""
        self.session_key = caller.session_key
        self.scope = anyio.CancelScope()
        self.questions: dict[str, _Question] = {}
        self.result: _Raw | None = None
        self.error: Exception | None = None
        self._news = anyio.Event()

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`. Between two requests nobody hears."""
        if not self.questions:
            await self.caller.on_progress(progress, total, message)

    async def elicit(self, method: str, params: _Raw) -> _Raw:
        """See `Caller`."""
        question = _Question(method, params)
        self.questions[str(len(self.questions) + 1)] = question
        self._news.set()
        await question.answered.wait()
        if question.answer is None:
            raise RefusedError("the client did not answer what was asked", CANNOT_BE_ASKED)
        return question.answer

    async def run(self, begin: Callable[[Caller], Awaitable[_Raw]]) -> None:
        """Make the call; how it ended is in ``result`` or ``error``."""
        with self.scope:
            try:
                self.result = await begin(self)
            except Exception as error:  # noqa: BLE001 - raised again where the client waits
                self.error = error
        if self.scope.cancelled_caught:
            self.error = RefusedError("the call has ended; make it anew", _INVALID)
        self._news.set()

    async def next(self) -> _Raw | None:
        """The result; None where there is a question first. Raises what the call has raised."""
        await self._news.wait()
        self._news = anyio.Event()
        if self.error is not None:
            raise self.error
        return self.result

    def answer(self, answers: Mapping[str, _Raw], caller: Caller) -> None:
        """Go on, with what the user has said."""
        questions, self.questions, self.caller = self.questions, {}, caller
        for key, question in questions.items():
            question.answer = answers.get(key)
            question.answered.set()


class PendingElicitations:
    """The calls that are held. They go on for as long as `run` does."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._tasks: TaskGroup | None = None

    async def run(self) -> None:
        """Hold calls until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            await anyio.sleep_forever()

    async def answer(
        self,
        what: Hashable,
        params: Mapping[str, Any],
        caller: Caller,
        begin: Callable[[Caller], Awaitable[_Raw]],
    ) -> _Raw:
        """The result of a client's request, or what its user has to be asked first.

        ``what`` is what it asks for: only the same request goes on with a call. Raises what
        the call raises, and `RefusedError` where it is not held any more.
        """
        call = self._begun(what, params, caller)
        if call is None:
            call = _Call(what, caller)
            assert self._tasks is not None  # noqa: S101 - it runs while there are requests
            self._tasks.start_soon(call.run, begin)
        try:
            result = await call.next()
        except anyio.get_cancelled_exc_class():  # the client has gone
            call.scope.cancel()
            raise
        return self._asking(call) if result is None else result

    def _begun(self, what: Hashable, params: Mapping[str, Any], caller: Caller) -> _Call | None:
        """The call that a request goes on with; None for one that begins."""
        state = str(params.get("requestState") or "")
        if not state.startswith(_OURS):
            return None
        call = self._calls.get(state)
        if call is None or call.what != what:
            raise RefusedError("no such call waits for an answer; make it anew", _INVALID)
        del self._calls[state]
        call.scope.deadline = float("inf")
        call.answer(cast("Mapping[str, _Raw]", params.get("inputResponses") or {}), caller)
        return call

    def _asking(self, call: _Call) -> _Raw:
        state = f"{_OURS}{secrets.token_urlsafe(16)}"
        call.scope.deadline = anyio.current_time() + PATIENCE_S
        self._calls = {key: each for key, each in self._calls.items() if each.error is None}
        if len(self._calls) >= MAX_HELD:
            self._calls.pop(next(iter(self._calls))).scope.cancel()
        self._calls[state] = call
        asked = {key: {"method": q.method, "params": q.params} for key, q in call.questions.items()}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}
