"""How promptly the event loop comes round: what makes it late makes everybody wait."""

import time
from bisect import bisect_left
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from toolscript.app.task_monitor import TaskMonitor

BEAT_S = 0.025
"""A loop that is blocked for so much longer than a bound is seen to be late by that bound."""
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    """How many of the values seen lie up to each bound, and their sum."""

    def __init__(self, bounds: tuple[float, ...] = BOUNDS_S) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def see(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Bound and how many values are not above it, as Prometheus has it."""
        names = [*map(str, self._bounds), "+Inf"]
        return [(name, sum(self._counts[: at + 1])) for at, name in enumerate(names)]


class EventLoopLag:
    """A task that sleeps, and notes how much too late it is woken.

    It begins when somebody first wants to know: an idle process should sleep.
    ``late`` is what others waited for the loop, in seconds, whatever the reason,
    a machine that is busy with other work included; ``worked`` is the part of it
    for which the loop's own thread can have been computing, and so at fault.
    """

    def __init__(self) -> None:
        self.late = Histogram()
        self.worked = Histogram()
        self._wanted = anyio.Event()

    def want(self) -> None:
        """Begin, if it has not."""
        self._wanted.set()

    @asynccontextmanager
    async def running(self, monitor: TaskMonitor) -> AsyncGenerator[None]:
        """Watch the loop for as long as the block lasts."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run, "event-loop", self._beat)
            yield
            tasks.cancel_scope.cancel()

    async def _beat(self) -> None:
        await self._wanted.wait()
        while True:
            began, computed = time.perf_counter(), time.thread_time()
            await anyio.sleep(BEAT_S)
            late = max(0.0, time.perf_counter() - began - BEAT_S)
            self.late.see(late)
            self.worked.see(min(late, time.thread_time() - computed))
