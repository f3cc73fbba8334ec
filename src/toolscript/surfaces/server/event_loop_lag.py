"""Measures how late the event loop runs what is due: while it is late, every request waits."""

import time
from bisect import bisect_left
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import accumulate

import anyio

from toolscript.app.task_monitor import TaskMonitor

INTERVAL_S = 0.025
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Histogram:
    """Counts durations by the smallest of `BOUNDS_S` that they do not exceed, and sums them."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, duration_s: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self.total_s += duration_s

    def buckets(self) -> list[tuple[str, float]]:
        """Returns each bound with the number of durations up to it, as Prometheus wants it."""
        return list(zip([*map(str, BOUNDS_S), "+Inf"], accumulate(self._counts), strict=True))


class EventLoopLag:
    """Sleeps again and again, and measures how much too late it wakes up.

    It begins when `start` is first called: an idle process should sleep.
    """

    def __init__(self) -> None:
        self.lag = Histogram()
        """How late the loop was, whatever the reason, a busy machine included."""
        self.cpu = Histogram()
        """The part of it in which the loop's own thread can have been computing."""
        self._started = anyio.Event()

    def start(self) -> None:
        """Begin to measure, if that has not begun."""
        self._started.set()

    @asynccontextmanager
    async def running(self, monitor: TaskMonitor) -> AsyncGenerator[None]:
        """Measure for as long as the block lasts."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run, "event-loop", self._run)
            yield
            tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        await self._started.wait()
        while True:
            began, computed = time.perf_counter(), time.thread_time()
            await anyio.sleep(INTERVAL_S)
            late = max(0.0, time.perf_counter() - began - INTERVAL_S)
            self.lag.add(late)
            self.cpu.add(min(late, time.thread_time() - computed))
