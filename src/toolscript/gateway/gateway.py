"""The gateway: an upstream per configured server, and the catalogue they add up to."""

from collections.abc import Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from toolscript.config import Config
from toolscript.errors import NotConnectedError
from toolscript.gateway.base import (
    Caller,
    Connect,
    Failed,
    Lost,
    Ready,
    Report,
    Upstream,
)
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.text import encodable
from toolscript.types import ServerSpec, ServerStatus, ToolSpec


class Gateway:
    """All upstreams of one configuration. Connects while `run` runs; keeps what it learned.

    Starts from a snapshot: what is known of a server counts until the server
    itself says otherwise. With ``reconnect=False`` the servers that the
    snapshot knows are not connected to at all, with ``only`` no other than that.
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
        self._config = config
        self._connector = connector
        enabled = [spec for spec in config.servers if not spec.disabled]
        missing = [s for s in enabled if reconnect or s.name not in known.servers]
        self._wanted = missing if only is None else [s for s in enabled if s.name == only]
        self._upstreams: dict[str, Upstream] = {}
        self._begun = anyio.Event()
        self._settled = {spec.name: anyio.Event() for spec in self._wanted}
        self._changed = anyio.Event()
        self.catalogue = known

    @property
    def settled(self) -> bool:
        """Whether every server that is connected to has become ready or failed, at least once."""
        return all(event.is_set() for event in self._settled.values())

    @property
    def unsettled(self) -> list[str]:
        """The servers that are still being waited for."""
        return [name for name, event in self._settled.items() if not event.is_set()]

    async def run(self) -> None:
        """Hold every connection until cancelled. No upstream's failure reaches another."""
        if not self._wanted:
            return
        # Importing an MCP client takes most of a second: not on the event loop.
        connect = await anyio.to_thread.run_sync(self._connector)
        self._upstreams = {s.name: connect(s, self._reporter(s)) for s in self._wanted}
        self._begun.set()
        async with anyio.create_task_group() as tasks:
            for name, upstream in self._upstreams.items():
                tasks.start_soon(upstream.run, name=name)

    async def request(
        self, server: str, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Pass a request on to a server; see `Upstream.request`."""
        if not any(spec.name == server for spec in self._wanted):
            raise NotConnectedError(f"{server} is not connected to by this process")
        await self._begun.wait()
        return await self._upstreams[server].request(method, params, caller)

    def pinned(self) -> list[ToolSpec]:
        """The tools that models always see, as the configuration has it, by id."""
        pins = {spec.name: spec.pin_tools for spec in self._config.servers}
        return [
            tool
            for tool in self.catalogue.tools.values()
            if any(fnmatchcase(tool.name, pattern) for pattern in pins.get(tool.server, ()))
        ]

    async def settle(self, server: str | None = None) -> None:
        """Wait until `settled`, or until that one server is."""
        for name, event in self._settled.items():
            if server in {None, name}:
                await event.wait()

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """Wait until the catalogue is another than ``seen``, and return it."""
        while self.catalogue is seen:
            await self._changed.wait()
        return self.catalogue

    def statuses(self) -> list[ServerStatus]:
        """Every server of the configuration, the unusable ones too, by name."""
        found = [self._status(spec) for spec in self._config.servers]
        found += [
            ServerStatus(
                name=p.server, state="invalid", error=encodable(f"{p.source}: {p.message}")
            )
            for p in self._config.problems
        ]
        return sorted(found, key=lambda status: status.name)

    def _status(self, spec: ServerSpec) -> ServerStatus:
        if spec.disabled:
            return ServerStatus(name=spec.name, state="disabled")
        entry = self.catalogue.servers.get(spec.name)
        if entry is None:
            return ServerStatus(name=spec.name, state="connecting", transport=spec.transport)
        waiting = spec.name in self._settled and not self._settled[spec.name].is_set()
        return ServerStatus(
            name=spec.name,
            state="connecting" if waiting else entry.state,
            transport=spec.transport,
            tools=len(entry.tools),
            error=entry.error,
            since=entry.since,
            version=entry.version,
            rejected=entry.rejected,
            snapshot=waiting or spec.name not in self._settled,
        )

    def _reporter(self, spec: ServerSpec) -> Callable[[Report], None]:
        def report(event: Report) -> None:
            self._take(spec, event)
            self._settled[spec.name].set()

        return report

    def _take(self, spec: ServerSpec, event: Report) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        before = self.catalogue.servers.get(spec.name)
        entry = ServerEntry(name=spec.name, digest=spec.digest, state="failed", since=now)
        match event:
            case Ready(tools=tools, version=version, rejected=rejected):
                entry = msgspec.structs.replace(
                    entry, state="ready", tools=tools, version=version, rejected=rejected
                )
            case Lost(error=error):
                # Its tools stay while the first reconnection is tried.
                entry = msgspec.structs.replace(before or entry, state="connecting", error=error)
            case Failed(error=error):
                entry = msgspec.structs.replace(entry, error=error)
        if before and msgspec.structs.replace(entry, since=before.since) == before:
            return  # the same again is no news
        self.catalogue = self.catalogue.replacing(entry)
        self._changed.set()
        self._changed = anyio.Event()
