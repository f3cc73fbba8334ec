"""Ends the requests, streams and sessions of a token that was revoked or has expired."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio

from toolscript.app.task_monitor import TaskMonitor

LOOK_S = 0.5
End: TypeAlias = Callable[[], object]
"""Ends what goes on; returns at once."""


class RevocationWatcher:
    """Ends what goes on in the name of a holder who is not admitted any more.

    A token that expires is no event, and files are looked at rather than watched
    elsewhere, too. Nothing is looked at while nothing goes on.
    """

    def __init__(self, is_admitted: Callable[[str], bool]) -> None:
        self._is_admitted = is_admitted
        self._under_way: dict[object, tuple[str, End]] = {}
        self._begun = anyio.Event()

    def add(self, key: object, holder: str, end: End) -> None:
        """Call ``end`` once the holder is not admitted any more; see `discard`."""
        self._under_way[key] = holder, end
        self._begun.set()

    def discard(self, key: object) -> None:
        """Forget what has ended by itself."""
        self._under_way.pop(key, None)

    @asynccontextmanager
    async def running(self, monitor: TaskMonitor) -> AsyncGenerator[None]:
        """Look again and again for as long as the block lasts."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.run, "revocations", self._run)
            yield
            tasks.cancel_scope.cancel()

    async def _run(self) -> None:
        while True:
            if not self._under_way:
                self._begun = anyio.Event()
                await self._begun.wait()
            await anyio.sleep(LOOK_S)
            self._look()

    def _look(self) -> None:
        admitted = {holder: self._is_admitted(holder) for holder, _ in self._under_way.values()}
        for key, (holder, end) in list(self._under_way.items()):
            if not admitted[holder]:
                self.discard(key)
                end()
