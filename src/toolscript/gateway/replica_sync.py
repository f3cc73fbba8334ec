"""Exchanges the entries of servers with the other replicas of a gateway."""

from collections.abc import Mapping

import anyio
import anyio.to_thread

from toolscript.errors import DatabaseUnavailableError
from toolscript.gateway.base import CatalogueNews, ServerOwnership, SharedCatalogue
from toolscript.gateway.catalogue import ServerEntry
from toolscript.gateway.definition_review import DefinitionReview
from toolscript.gateway.published_catalogue import PublishedCatalogue
from toolscript.gateway.server_slot import ServerSlot

_STORE_AGAIN_S = 5.0
"""The pause after which entries that could not be stored are stored."""


class ReplicaSync:
    """Takes over what other replicas list, and stores what this one does.

    Args:
        shared: Where replicas tell each other what servers list; None without other replicas.
        ownership: Says which servers this replica lists.
        review: Compares what is taken over with what was accepted.
        published: The catalogue.
        slots: The servers that run, by name.
    """

    def __init__(
        self,
        shared: SharedCatalogue | None,
        ownership: ServerOwnership,
        review: DefinitionReview,
        published: PublishedCatalogue,
        slots: Mapping[str, ServerSlot],
    ) -> None:
        self._shared = shared
        self._ownership = ownership
        self._review = review
        self._published = published
        self._slots = slots

    async def run(self) -> None:
        """Follows the other replicas, and tells them what this one lists, until cancelled."""
        if self._shared is None:
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_news, self._shared)
            tasks.start_soon(self._store, self._shared)

    async def adopt(self, entry: ServerEntry) -> None:
        """Takes over what the owner of a server has stored, in another replica.

        Its tools are compared with what was accepted, as if they had been listed here.
        """
        slot = self._slots.get(entry.name)
        if slot is None or slot.spec.digest != entry.digest:
            return
        before = self._published.entry(entry.name)
        # `slot.is_owned` may be late: of a process that was stopped, another may be the owner now.
        if self._ownership.owns(slot.spec) and before is not None:
            return
        await self._review.review(slot, entry)
        now = self._published.entry(entry.name)
        if before is not None and now is not None and before.held != now.held:
            slot.list_again()
        slot.settled.set()

    async def adopt_stored(self, slot: ServerSlot) -> None:
        """Takes over what was stored of a server before this replica's configuration had it."""
        if self._shared is None:
            return
        try:
            stored = await anyio.to_thread.run_sync(self._shared.load, [slot.spec])
        except DatabaseUnavailableError:
            return  # the owner is waited for
        for entry in stored.servers.values():
            await self.adopt(entry)

    def report_stale(self, server: str) -> None:
        """Has the owner of a server look, where other tools are seen here."""
        if self._shared is not None:
            self._shared.report_stale(server)

    async def _follow_news(self, shared: SharedCatalogue) -> None:
        held = {tool.tool.server for tool in self._published.current.held.values()}
        for slot in list(self._slots.values()):  # some may have been approved before this began
            await self._follow(slot, CatalogueNews(reviewed=frozenset(held)))
        while True:
            news = await shared.news()
            for entry in news.entries:
                await self.adopt(entry)
            for slot in list(self._slots.values()):
                await self._follow(slot, news)

    async def _follow(self, slot: ServerSlot, news: CatalogueNews) -> None:
        name = slot.spec.name
        entry = self._published.entry(name)
        if entry is not None and (news.reviewed is None or name in news.reviewed):
            await self._review.review(slot, entry)
            if self._published.entry(name) is not entry:
                slot.list_again()
        if name in news.stale and slot.is_owned:
            slot.instances.default.start()
            slot.list_again()

    async def _store(self, shared: SharedCatalogue) -> None:
        """Stores what this replica's servers list, as soon as it changes."""
        while True:
            catalogue = self._published.current
            await anyio.to_thread.run_sync(shared.save, catalogue)
            with anyio.move_on_after(_STORE_AGAIN_S):
                await self._published.changed(catalogue)
