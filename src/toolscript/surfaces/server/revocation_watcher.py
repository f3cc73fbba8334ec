"""Ends the requests, streams and sessions of a token that was revoked or has expired."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from toolscript.app.task_monitor import TaskMonitor

INTERVAL_S = 0.5
End: TypeAlias = Callable[[], object]
"""Ends a request or a session; returns at once."""


class RevocationWatcher:
    """Ends the requests and sessions of holders who are not admitted any more.

    It looks twice a second while there are any: a token that expires causes no event.
    """

    def __init__(self, is_admitted: Callable[[str], bool]) -> None:
        self._is_admitted = is_admitted
        self._watched: dict[object, tuple[str, End]] = {}
        self._added = anyio.Event()

    def add(self, key: object, holder: str, end: End) -> None:
        """Call ``end`` once the holder is not admitted any more, unless `discard` comes first."""
        self._watched[key] = holder, end
        self._added.set()

    def discard(self, key: object) -> None:
        """Forget a request or session that has ended."""
        self._watched.pop(key, None)

    @asynccontextmanager
    async def running(self, monitor: TaskMonitor) -> AsyncGenerator[None]:
        """Watch for as long as the block lasts."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run, "revocations", self._run)
            yield
            tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        while True:
            if not self._watched:
                self._added = anyio.Event()
                await self._added.wait()
            await anyio.sleep(INTERVAL_S)
            self._end_revoked()

    def _end_revoked(self) -> None:
        admitted = {holder: self._is_admitted(holder) for holder, _ in self._watched.values()}
        for key, (holder, end) in list(self._watched.items()):
            if not admitted[holder]:
                self.discard(key)
                end()
