"""Runs the servers of a gateway that is one of several replicas.

They divide the servers among them: the owner of a server lists its tools for all, and runs it
alone if its entry says ``instances: one``.
"""

from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from toolscript.config.servers import Config
from toolscript.errors import DatabaseUnavailableError, NotOwnerError
from toolscript.gateway.base import Caller, CatalogueNews, Ready, Replication, Report
from toolscript.gateway.catalogue import Catalogue, ServerEntry
from toolscript.gateway.gateway import Gateway, enabled
from toolscript.gateway.managed_server import ManagedServer
from toolscript.storage.atomic_files import file_name
from toolscript.types import ServerSpec

OWNER_PATIENCE_S = 20.0
"""How long the owner of a server, which another replica may have to become, is waited for."""
OWNER_PAUSE_S = 0.1
_STORE_RETRY_S = 5.0
"""The pause before entries are stored again, since storing may have failed."""


class ReplicatedGateway(Gateway):
    """A `Gateway` that lists the servers it owns, and adopts from other replicas what they list.

    Args:
        replication: The other replicas.
        config: See `Gateway`, as of the others.
        known: The snapshot to start from; entries that replicas have stored count instead.
        wired: The other arguments of `Gateway`.
        more: Those that have names.
    """

    def __init__(
        self, replication: Replication, config: Config, known: Catalogue, *wired: Any, **more: Any
    ) -> None:
        self._replication = replication
        replication.follow(enabled(config))
        stored = replication.load(config.servers).servers
        replication.accept(self.serve_replica)
        super().__init__(config, Catalogue.of({**known.servers, **stored}.values()), *wired, **more)

    def owns(self, spec: ServerSpec) -> bool:
        """See `Gateway`."""
        return self._replication.owns(spec)

    def configure(self, config: Config) -> None:
        """See `Gateway`."""
        self._replication.follow(enabled(config))
        super().configure(config)

    async def route(
        self, server: str, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """See `Gateway`. A server that one replica runs may be asked in another replica."""
        deadline = anyio.current_time() + OWNER_PATIENCE_S
        while True:
            spec = self.managed(server).spec
            try:
                if spec.instances == "one" and not self.owns(spec):
                    return await self._replication.forward(spec, method, params, caller)
                return await super().route(server, method, params, caller)
            except NotOwnerError:
                if anyio.current_time() > deadline:
                    raise
            await anyio.sleep(OWNER_PAUSE_S)

    async def serve_replica(
        self, server: str, digest: str, method: str, params: dict[str, Any], caller: Caller
    ) -> dict[str, Any]:
        """Does what `Gateway.route` does, for another replica, which takes this for the owner.

        Raises `NotOwnerError` if it is not, or its entry has not this ``digest``.
        """
        managed = self._managed.get(server)
        if managed is None or managed.spec.digest != digest or not self.owns(managed.spec):
            raise NotOwnerError(f"{server} is not run by this replica; try again")
        return await super().route(server, method, params, caller)

    async def adopt(self, entry: ServerEntry) -> None:
        """Adopts the entry that the owner of a server, which is another replica, has stored.

        Its tools are compared with those that were accepted, as if they had been listed here.
        """
        managed = self._managed.get(entry.name)
        if managed is None or managed.spec.digest != entry.digest:
            return
        before = self._catalogue.entry(entry.name)
        # `managed.is_owned` may be late: after a pause of this process another may be the owner.
        if self.owns(managed.spec) and before is not None:
            return
        await self._approval.review(managed, entry)
        now = self._catalogue.entry(entry.name)
        if before is not None and now is not None and before.held != now.held:
            managed.list_again()
        managed.settled.set()

    async def _watch(self, tasks: TaskGroup) -> None:
        tasks.start_soon(self._follow_news)
        tasks.start_soon(self._store)
        while True:
            self._note_owners()
            await self._replication.changed()

    def _note_owners(self) -> None:
        """Has the servers listed that this replica owns now, and stops those it may not run."""
        for managed in list(self._managed.values()):
            was_owned, managed.is_owned = managed.is_owned, self.owns(managed.spec)
            if managed.is_owned and not was_owned:
                entry = self._find_known(managed.spec)
                if entry is None or self._policy.starts(managed.spec, entry):
                    managed.default.start()
            elif was_owned and not managed.is_owned and managed.spec.instances == "one":
                self._end(managed)
                self._begin(managed.spec)

    async def _run(self, managed: ManagedServer) -> None:
        if not managed.is_owned and self._tasks is not None:
            self._tasks.start_soon(self._await_owner, managed)
        await super()._run(managed)

    async def _await_owner(self, managed: ManagedServer) -> None:
        """Lists a server here that its owner, in another replica, does not list in time."""
        if not managed.settled.is_set():
            await self._adopt_stored(managed)
        with anyio.move_on_after(OWNER_PATIENCE_S):
            await managed.settled.wait()
        if managed.spec.instances == "one":
            managed.settled.set()
        elif not managed.settled.is_set():
            managed.default.start()

    async def _adopt_stored(self, managed: ManagedServer) -> None:
        """Adopts the entry of a server that was stored before this configuration had it."""
        try:
            stored = await anyio.to_thread.run_sync(self._replication.load, [managed.spec])
        except DatabaseUnavailableError:
            return  # the owner is waited for
        for entry in stored.servers.values():
            await self.adopt(entry)

    def _keeps_entry(self, managed: ManagedServer, report: Report) -> bool:
        """See `Gateway`. A server that another lists is not failed because it fails here.

        Its owner is told if it has other tools here.
        """
        before = self.catalogue.servers.get(managed.spec.name)
        if super()._keeps_entry(managed, report) or managed.is_owned or before is None:
            return super()._keeps_entry(managed, report)
        if not isinstance(report, Ready):
            return before.state == "ready"
        mine, theirs = report, before
        if (mine.tools, mine.held) != (theirs.tools, theirs.held):
            self._replication.report_stale(managed.spec.name)
        return False

    async def _follow_news(self) -> None:
        held = {file_name(tool.tool.server) for tool in self.catalogue.held.values()}
        # Some may have been approved before this began.
        for managed in list(self._managed.values()):
            await self._follow(managed, CatalogueNews(reviewed=frozenset(held)))
        while True:
            news = await self._replication.news()
            for entry in news.entries:
                await self.adopt(entry)
            for managed in list(self._managed.values()):
                await self._follow(managed, news)

    async def _follow(self, managed: ManagedServer, news: CatalogueNews) -> None:
        name = managed.spec.name
        entry = self._catalogue.entry(name)
        if entry is not None and (news.reviewed is None or file_name(name) in news.reviewed):
            await self._approval.review(managed, entry)
            if self._catalogue.entry(name) is not entry:
                managed.list_again()
        if name in news.stale and managed.is_owned:
            managed.default.start()
            managed.list_again()

    async def _store(self) -> None:
        """Stores what this replica's servers list, as soon as it changes."""
        while True:
            catalogue = self.catalogue
            await anyio.to_thread.run_sync(self._replication.save, catalogue)
            with anyio.move_on_after(_STORE_RETRY_S):
                await self._catalogue.changed(catalogue)
