"""Limits how many requests one server gets at a time, and lets sessions take turns."""

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager

import anyio


class FairQueue:
    """Lets ``limit`` requests through at a time, any number for 0.

    Requests wait in the order in which they came within their session, and the sessions that
    have requests waiting take turns: one with a hundred delays another's single one by one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running = 0
        self._waiting: OrderedDict[Hashable, deque[anyio.Event]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, session: Hashable) -> AsyncGenerator[None]:
        """Wait for a turn of this session, and keep it for as long as the block lasts."""
        if self._limit and self._running >= self._limit:
            await self._wait(session)  # whoever ends hands over: the number stays as it is
        else:
            self._running += 1
        try:
            yield
        finally:
            self._hand_over()

    async def _wait(self, session: Hashable) -> None:
        turn = anyio.Event()
        self._waiting.setdefault(session, deque()).append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._hand_over()
            else:
                self._remove(session, turn)
            raise

    def _hand_over(self) -> None:
        if not self._waiting:
            self._running -= 1
            return
        session, turns = self._waiting.popitem(last=False)
        turns.popleft().set()
        if turns:
            self._waiting[session] = turns  # behind every other session

    def _remove(self, session: Hashable, turn: anyio.Event) -> None:
        turns = self._waiting[session]
        turns.remove(turn)
        if not turns:
            del self._waiting[session]
