"""Bounds how many servers run at a time: the least recently used idle one makes room."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio


class Stoppable(Protocol):
    """A server that runs, as the limit sees it."""

    @property
    def used_at(self) -> float:
        """When its last request ended, by the event loop's clock."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether it works and has no request under way."""
        ...

    def stop(self) -> None:
        """Stops it if it is idle."""
        ...


class ProcessLimit:
    """Lets ``limit`` servers run at a time, any number for 0."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: set[Stoppable] = set()
        self._changed = anyio.Event()

    @asynccontextmanager
    async def running(self, server: Stoppable) -> AsyncGenerator[None]:
        """Wait until there is room for a server, and keep it for as long as the block lasts."""
        while self._limit and len(self._running) >= self._limit:
            idle = [each for each in self._running if each.is_idle]
            if idle:
                min(idle, key=lambda each: each.used_at).stop()
            await self._changed.wait()
        self._running.add(server)
        try:
            yield
        finally:
            self._running.discard(server)
            self.notify()

    def notify(self) -> None:
        """Has those who wait look again: a server has ended, or become idle."""
        self._changed.set()
        self._changed = anyio.Event()
