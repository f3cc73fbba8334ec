"""An instance of a server: started when it is needed, stopped once it is idle.

The upstream of an instance connects and reconnects for as long as it runs. An instance whose
tools are known rests until a request needs it. If as many run as may, the least recently used
idle one makes room.
"""

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from toolscript.errors import NotConnectedError
from toolscript.gateway.base import Caller, Connect, Failed, Report, Upstream
from toolscript.gateway.upstream.backoff import Backoff
from toolscript.types import ServerSpec

log = logging.getLogger(__name__)
FAULT_PAUSE_S = 60.0
"""The pause after a connection that failed for a fault of toolscript's own."""
ROOM_S = 60.0
"""How long a request waits for a server that has to wait for another one's end."""


class InstanceEndedError(Exception):
    """The instance has ended before it took a request, which another one may take."""


class Instance:
    """One server's upstream, which comes and goes. `run` needs a task for itself.

    Args:
        spec: The server.
        connector: Returns the maker of upstreams.
        report: Takes the upstream's reports; returns whether the server's tools are known
            now, so that it may be stopped once it is idle.
        limit: The servers that run: this one waits for room among them.
        idle_s: Seconds without a request after which the server is stopped; 0 for never.
        is_known: Whether its tools are known, so that it rests until it is needed.
        is_temporary: Whether it ends for good once it is idle.
    """

    def __init__(  # noqa: PLR0913 - what the gateway wires, each by its name
        self,
        spec: ServerSpec,
        connector: Callable[[], Awaitable[Connect]],
        report: Callable[[Report], bool],
        limit: "ProcessLimit",
        *,
        idle_s: float,
        is_known: bool,
        is_temporary: bool = False,
    ) -> None:
        self.spec = spec
        self._connector = connector
        self._report = report
        self._limit = limit
        self._idle_s = idle_s or math.inf
        self._is_temporary = is_temporary
        self._is_known: bool | None = None
        """Whether the last report says so; None until there is one."""
        self._upstream: Upstream | None = None
        self._is_ended = False
        self._active = 0
        self.used_at = -math.inf
        """When its last request ended, by the event loop's clock."""
        self.removed = anyio.Event()
        """Set once a temporary one has ended, its process too."""
        self._needed = anyio.Event()
        self._begun = anyio.Event()
        """Set once there is an upstream, or there will be none."""
        self._stopped = anyio.Event()
        """Set to stop an idle server before its time."""
        self._ends_unused = False
        """Whether it ends as soon as it has no request under way."""
        self._asked = anyio.Event()
        """Set by a request that waits for the server."""
        if not is_known:
            self._needed.set()

    @property
    def is_resting(self) -> bool:
        """Whether it is not connected, and will be once it is needed."""
        return not self._needed.is_set() and not self._is_ended

    @property
    def is_idle(self) -> bool:
        """Whether it may be stopped: it has reported, and has no request under way."""
        return self._upstream is not None and self._is_known is not None and not self._active

    @property
    def pid(self) -> int | None:
        """The id of the server's process; None while it rests, and for a remote server."""
        return self._upstream.pid if self._upstream else None

    async def run(self) -> None:
        """Starts the server whenever it is needed, and stops it whenever it is idle."""
        backoff = Backoff()
        try:
            while not self._is_ended:
                await self._needed.wait()
                connect = await self._connector()
                async with self._limit.running(self), anyio.create_task_group() as tasks:
                    self._is_known, self.used_at = None, anyio.current_time()
                    tasks.start_soon(self._run_upstream, connect)
                    await self._until_idle()
                    self._asked = anyio.Event()
                    self._rest()
                    tasks.cancel_scope.cancel()
                if self._is_known is False and not self._is_ended:
                    # It has made room for another one, and would take that from a third.
                    with anyio.move_on_after(backoff.pause()):
                        await self._asked.wait()
                else:
                    backoff = Backoff()
        finally:
            self.end()

    def _rest(self) -> None:
        """Lets further requests wait for the next start, or refuses them for good."""
        if self._is_temporary:
            self.end()
            return
        self._upstream, self._begun = None, anyio.Event()
        if self._is_known:  # else it is tried again as soon as there is room
            self._needed = anyio.Event()

    def end(self) -> None:
        """Refuses every request from now on."""
        self._is_ended = True
        self._upstream = None
        self._begun.set()

    def start(self) -> None:
        """Starts the server, unless it is started already."""
        self._needed.set()

    def list_again(self) -> None:
        """Has the server's tools listed once more, if it is started."""
        if self._upstream is not None:
            self._upstream.list_again()

    def stop(self) -> None:
        """Stops the server now if it is idle."""
        self._stopped.set()

    def end_unused(self) -> None:
        """Stops the server now, or at the end of its last request, also while it starts."""
        self._ends_unused = True
        self._stopped.set()

    async def serve(self, method: str, params: dict[str, Any], caller: Caller) -> dict[str, Any]:
        """Returns the server's result, and keeps the server running until then.

        Raises the errors of `Upstream.send`, and `InstanceEndedError`.
        """
        self._active += 1
        try:
            upstream = await self._wake(caller)
            return await upstream.send(method, params, caller)
        finally:
            self._active -= 1
            self.used_at = anyio.current_time()
            self._limit.notify()
            if self._ends_unused:
                self._stopped.set()

    async def _wake(self, caller: Caller) -> Upstream:
        """Returns the upstream, which is started if need be: the caller hears that it is."""
        if self.is_resting:
            self.start()
            with suppress(Exception):  # whoever does not listen still gets an answer
                await caller.on_progress(0, None, f"starting {self.spec.name}…")
        while (upstream := self._upstream) is None:
            if self._is_ended:
                raise InstanceEndedError
            self.start()
            self._asked.set()
            await self._room()
        return upstream

    async def _room(self) -> None:
        """Waits until the upstream is there, which may have to wait for room."""
        with anyio.move_on_after(ROOM_S):
            await self._begun.wait()
            return
        raise NotConnectedError(
            f"{self.spec.name} cannot be started: as many servers as may run are busy; "
            "allow more with TOOLSCRIPT_MAX_PROCESSES"
        )

    async def _run_upstream(self, connect: Connect) -> None:
        """Runs the upstream, and another one after a fault of toolscript's own."""
        while True:
            try:
                self._upstream = connect(self.spec, self._take)
                self._begun.set()
                await self._upstream.run()
            except Exception as error:
                log.exception("the connection to %s failed", self.spec.name)
                reason = f"toolscript failed ({type(error).__name__}); its log says why"
                self._take(Failed(error=reason, retry_s=FAULT_PAUSE_S))
            await anyio.sleep(FAULT_PAUSE_S)

    def _take(self, report: Report) -> None:
        self._is_known = self._report(report)
        self._limit.notify()

    async def _until_idle(self) -> None:
        """Returns once nothing has been asked for the whole idle time, or on `stop`."""
        while (left_s := self._busy_s()) > 0:
            with anyio.move_on_after(left_s):
                await self._stopped.wait()
            if self._stopped.is_set():
                self._stopped = anyio.Event()
                if self.is_idle:
                    return

    def _busy_s(self) -> float:
        """Returns for how many seconds the server stays started at least."""
        if self._ends_unused and not self._active:
            return 0
        if self.is_idle and (self._is_known or self._is_temporary):
            return self.used_at + self._idle_s - anyio.current_time()
        return self._idle_s


class ProcessLimit:
    """Lets ``limit`` servers run at a time, any number for 0."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: set[Instance] = set()
        self._changed = anyio.Event()

    @asynccontextmanager
    async def running(self, server: Instance) -> AsyncGenerator[None]:
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
