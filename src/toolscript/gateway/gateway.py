"""Runs an upstream for each configured server, and merges their tools into a catalogue."""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from toolscript.config.servers import Config
from toolscript.errors import NotConnectedError
from toolscript.gateway.base import Caller, Connect, Failed, Ready, Report, Upstream
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.text import encodable
from toolscript.types import ServerSpec, ServerStatus, ToolSpec

log = logging.getLogger(__name__)
FAULT_PAUSE_S = 60.0
"""The pause after a connection that failed for a fault of toolscript's own."""


@dataclass(eq=False)
class _Slot:
    """One server as it is configured now, and the state of its upstream."""

    spec: ServerSpec
    scope: anyio.CancelScope | None = None
    upstream: Upstream | None = None
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set once there is an upstream, or there will be none."""
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set once the server is ready or has failed, or has been released."""
    retry: str = ""
    """The time of the next attempt: ISO 8601, UTC."""


class Gateway:
    """All upstreams of one configuration. They are connected while `run` runs.

    ``known`` is the snapshot to start from: an entry counts until its server reports.
    With ``reconnect=False`` only servers that it lacks are connected, with ``only`` only
    the server of that name.
    """

    def __init__(
        self,
        config: Config,
        known: Catalogue,
        connector: Callable[[], Connect],
        *,
        reconnect: bool = True,
        only: str | None = None,
    ) -> None:
        self.config = config
        self._connector = connector
        missing = [s for s in _enabled(config) if reconnect or s.name not in known.servers]
        wanted = missing if only is None else [s for s in _enabled(config) if s.name == only]
        self._slots = {spec.name: _Slot(spec) for spec in wanted}
        self._running: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)
        """Held by the task of the server of this name."""
        self._tasks: TaskGroup | None = None
        self._loading = anyio.Lock()
        self._connect: Connect | None = None
        self._changed = anyio.Event()
        self.catalogue = known

    @property
    def settled(self) -> bool:
        """Whether every upstream has become ready or failed, at least once."""
        return not self.unsettled

    @property
    def unsettled(self) -> list[str]:
        """The servers that have neither become ready nor failed yet."""
        return [name for name, slot in self._slots.items() if not slot.settled.is_set()]

    async def run(self) -> None:
        """Runs every upstream until cancelled. No upstream's failure affects another."""
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                for slot in self._slots.values():
                    tasks.start_soon(self._hold, slot, name=slot.spec.name)
                await anyio.sleep_forever()
        finally:
            if self._connect is not None:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._connect.close)

    def configure(self, config: Config) -> None:
        """Changes the configuration. Servers whose entry is the same stay connected.

        What is known of a changed server counts until the new connection has settled.
        """
        wanted = {spec.name: spec for spec in _enabled(config)}
        self.config = config
        for name, slot in list(self._slots.items()):
            if name not in wanted or wanted[name].digest != slot.spec.digest:
                if slot.scope is not None:
                    slot.scope.cancel()
                slot.settled.set()
                del self._slots[name]
        for name in [name for name in wanted if name not in self._slots]:
            slot = self._slots[name] = _Slot(wanted[name])
            if self._tasks is not None:
                self._tasks.start_soon(self._hold, slot, name=name)
        self._publish(self.catalogue.keeping(wanted))

    async def request(
        self, server: str, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Passes a request on to a server; see `Upstream.request`."""
        slot = self._slots.get(server)
        if slot is None:
            raise NotConnectedError(f"{server} is not connected to by this process")
        await slot.begun.wait()
        if slot.upstream is None:
            raise NotConnectedError(f"{server} has just been reconfigured; try again")
        return await slot.upstream.request(method, params, caller)

    def pinned(self) -> list[ToolSpec]:
        """Returns the tools that the configuration pins, by id: models always see them."""
        pins = {spec.name: spec.pin_tools for spec in self.config.servers}
        return [
            tool
            for tool in self.catalogue.tools.values()
            if any(fnmatchcase(tool.name, pattern) for pattern in pins.get(tool.server, ()))
        ]

    async def settle(self, server: str | None = None) -> None:
        """Waits until `settled`, or until the given server is."""
        while waiting := [name for name in self.unsettled if server in {None, name}]:
            await self._slots[waiting[0]].settled.wait()

    async def _hold(self, slot: _Slot) -> None:
        """Runs one server's task, once the previous one of the same server has ended."""
        name = slot.spec.name
        try:
            async with self._running[name]:
                if self._slots.get(name) is not slot:
                    return  # it has been released already
                with anyio.CancelScope() as slot.scope:
                    connect = await self._client()
                    while await self._has_failed(slot, connect):  # noqa: ASYNC110 - there is no event for it
                        await anyio.sleep(FAULT_PAUSE_S)
        finally:
            slot.begun.set()

    async def _has_failed(self, slot: _Slot, connect: Connect) -> bool:
        """Runs one server's upstream; returns whether that raised, a fault of toolscript's own."""
        report = partial(self._take, slot)
        try:
            slot.upstream = connect(slot.spec, report)
            slot.begun.set()
            await slot.upstream.run()
        except Exception as error:
            log.exception("the connection to %s failed", slot.spec.name)
            reason = f"toolscript failed ({type(error).__name__}); its log says why"
            report(Failed(error=reason, retry_s=FAULT_PAUSE_S))
            return True
        return False

    async def _client(self) -> Connect:
        async with self._loading:
            if self._connect is None:
                # Importing an MCP client takes most of a second: not on the event loop.
                self._connect = await anyio.to_thread.run_sync(self._connector)
            return self._connect

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """Returns the catalogue, once it is another than ``seen``."""
        while self.catalogue is seen:
            await self._changed.wait()
        return self.catalogue

    def statuses(self) -> list[ServerStatus]:
        """Returns every server of the configuration, the unusable ones too, by name."""
        statuses = [self._status(spec) for spec in self.config.servers]
        for problem in self.config.problems:
            error = encodable(f"{problem.source}: {problem.message}")
            statuses.append(ServerStatus(name=problem.server, state="invalid", error=error))
        return sorted(statuses, key=lambda status: status.name)

    def why_missing(self, server: str, tool: str) -> str:
        """Returns why the catalogue lacks a server's tool, or "" where there is no such server."""
        status = next((status for status in self.statuses() if status.name == server), None)
        if status is None:
            return ""
        if status.state != "ready":
            error = f": {status.error}" if status.error else ""
            return f"its server {server} is {status.state}{error}"
        spec = next(spec for spec in self.config.servers if spec.name == server)
        if not spec.offers(tool):
            return f"includeTools or excludeTools keeps it out of {server}"
        return f"the server {server} offers no tool of that name"

    def _status(self, spec: ServerSpec) -> ServerStatus:
        if spec.disabled:
            return ServerStatus(name=spec.name, state="disabled")
        entry = self.catalogue.servers.get(spec.name)
        if entry is None:
            return ServerStatus(name=spec.name, state="connecting", transport=spec.transport)
        slot = self._slots.get(spec.name)
        waiting = slot is not None and not slot.settled.is_set()
        return ServerStatus(
            name=spec.name,
            state="connecting" if waiting else entry.state,
            transport=spec.transport,
            tools=len(entry.tools),
            error=entry.error,
            since=entry.since,
            version=entry.version,
            rejected=entry.rejected,
            snapshot=waiting or slot is None,
            retry=slot.retry if slot else "",
        )

    def _take(self, slot: _Slot, event: Report) -> None:
        """Puts what an upstream reports into the catalogue, unless it has been replaced."""
        spec = slot.spec
        if self._slots.get(spec.name) is not slot:
            return
        before = self.catalogue.servers.get(spec.name)
        entry = ServerEntry(name=spec.name, digest=spec.digest, state="failed", since=_from_now(0))
        if isinstance(event, Ready):
            slot.retry = ""
            reported = msgspec.structs.asdict(event)
            entry = msgspec.structs.replace(entry, state="ready", **reported)
        else:
            slot.retry = _from_now(event.retry_s)
            if event.retrying:
                entry = msgspec.structs.replace(before or entry, state="connecting")
            entry = msgspec.structs.replace(entry, error=event.error)
        if before is None or msgspec.structs.replace(entry, since=before.since) != before:
            self._publish(self.catalogue.replacing(entry))
        slot.settled.set()

    def _publish(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._changed.set()
        self._changed = anyio.Event()


def _from_now(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _enabled(config: Config) -> list[ServerSpec]:
    return [spec for spec in config.servers if not spec.disabled]
