"""Exchanges the entries of servers with the other replicas of a gateway."""

from collections.abc import Mapping

import anyio
import anyio.to_thread

from toolscript.errors import DatabaseUnavailableError
from toolscript.gateway.base import CatalogueNews, ServerOwnership, SharedCatalogue
from toolscript.gateway.catalogue import ServerEntry
from toolscript.gateway.definition_approval import DefinitionApproval
from toolscript.gateway.managed_server import ManagedServer
from toolscript.gateway.observable_catalogue import ObservableCatalogue
from toolscript.storage.atomic_files import file_name

_STORE_RETRY_S = 5.0
"""The pause before entries are stored again, since storing may have failed."""


class ReplicaSync:
    """Adopts the tools that other replicas list, and stores those that this one lists.

    Args:
        shared: Where replicas tell each other what servers list; None without other replicas.
        ownership: Says which servers this replica lists.
        approval: Compares what is adopted with what was accepted.
        catalogue: The catalogue.
        managed: The servers that run, by name.
    """

    def __init__(
        self,
        shared: SharedCatalogue | None,
        ownership: ServerOwnership,
        approval: DefinitionApproval,
        catalogue: ObservableCatalogue,
        managed: Mapping[str, ManagedServer],
    ) -> None:
        self._shared = shared
        self._ownership = ownership
        self._approval = approval
        self._catalogue = catalogue
        self._managed = managed

    async def run(self) -> None:
        """Follows the other replicas, and tells them what this one lists, until cancelled."""
        if self._shared is None:
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_news, self._shared)
            tasks.start_soon(self._store, self._shared)

    async def adopt(self, entry: ServerEntry) -> None:
        """Adopts what the owner of a server, which is another replica, has stored.

        Its tools are compared with what was accepted, as if they had been listed here.
        """
        managed = self._managed.get(entry.name)
        if managed is None or managed.spec.digest != entry.digest:
            return
        before = self._catalogue.entry(entry.name)
        # `managed.is_owned` may be late: after a pause of this process another may be the owner.
        if self._ownership.owns(managed.spec) and before is not None:
            return
        await self._approval.review(managed, entry)
        now = self._catalogue.entry(entry.name)
        if before is not None and now is not None and before.held != now.held:
            managed.list_again()
        managed.settled.set()

    async def adopt_stored(self, managed: ManagedServer) -> None:
        """Adopts what was stored of a server before this replica's configuration had it."""
        if self._shared is None:
            return
        try:
            stored = await anyio.to_thread.run_sync(self._shared.load, [managed.spec])
        except DatabaseUnavailableError:
            return  # the owner is waited for
        for entry in stored.servers.values():
            await self.adopt(entry)

    def report_stale(self, server: str) -> None:
        """Has the owner of a server look, where other tools are seen here."""
        if self._shared is not None:
            self._shared.report_stale(server)

    async def _follow_news(self, shared: SharedCatalogue) -> None:
        held = {file_name(each.tool.server) for each in self._catalogue.current.held.values()}
        # Some may have been approved before this began.
        for managed in list(self._managed.values()):
            await self._follow(managed, CatalogueNews(reviewed=frozenset(held)))
        while True:
            news = await shared.news()
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
            managed.instances.default.start()
            managed.list_again()

    async def _store(self, shared: SharedCatalogue) -> None:
        """Stores what this replica's servers list, as soon as it changes."""
        while True:
            catalogue = self._catalogue.current
            await anyio.to_thread.run_sync(shared.save, catalogue)
            with anyio.move_on_after(_STORE_RETRY_S):
                await self._catalogue.changed(catalogue)
