"""Applies the decisions about held definitions to the entries of the catalogue."""

from collections.abc import Mapping, Sequence
from functools import partial

import anyio.to_thread
import msgspec

from toolscript.gateway.catalogue import ServerEntry
from toolscript.gateway.definitions.comparison import HeldTool, Version
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.published_catalogue import PublishedCatalogue
from toolscript.gateway.server_slot import ServerSlot
from toolscript.types import ServerSpec, ToolSpec


class DefinitionReview:
    """Approves and rejects what is held, and compares entries with what was accepted.

    Args:
        pins: The definitions that were accepted.
        published: The catalogue.
        slots: The servers that run, by name.
    """

    def __init__(
        self, pins: DefinitionPins, published: PublishedCatalogue, slots: Mapping[str, ServerSlot]
    ) -> None:
        self._pins = pins
        self._published = published
        self._slots = slots

    async def versions(self, tool: ToolSpec) -> tuple[Version, ...]:
        """Returns the definitions of a tool that were accepted, the newest last."""
        return await anyio.to_thread.run_sync(self._pins.versions, tool)

    async def approve(self, spec: ServerSpec, chosen: Sequence[HeldTool]) -> None:
        """Accepts some held definitions of one server. Raises `DecisionStorageError`."""
        entry = self._published.entry(spec.name)
        whole = entry is not None and len(chosen) == len(entry.held)
        await anyio.to_thread.run_sync(partial(self._pins.approve, spec, chosen, whole=whole))
        entry = self._published.entry(spec.name)
        if entry is None:
            return
        names = {each.tool.name for each in chosen}
        tools = {tool.name: tool for tool in entry.tools}
        tools |= {each.tool.name: each.tool for each in entry.held if each in chosen}
        still = tuple(each for each in entry.held if each not in chosen)
        recent = {name: each for name, each in entry.recent.items() if name not in names}
        self._republish(
            msgspec.structs.replace(entry, tools=tuple(tools.values()), held=still, recent=recent)
        )

    async def reject(self, spec: ServerSpec, chosen: Sequence[HeldTool]) -> None:
        """Keeps some held definitions of one server held. Raises `DecisionStorageError`."""
        await anyio.to_thread.run_sync(self._pins.reject, spec, chosen)
        entry = self._published.entry(spec.name)
        if entry is None:
            return
        marked = tuple(
            msgspec.structs.replace(each, rejected=True) if each in chosen else each
            for each in entry.held
        )
        self._republish(msgspec.structs.replace(entry, held=marked))

    async def review(self, slot: ServerSlot, entry: ServerEntry) -> None:
        """Publishes an entry as the accepted definitions have it now."""
        if entry.state == "ready":
            tools = (*entry.tools, *(held.tool for held in entry.held))
            reviewed = await anyio.to_thread.run_sync(self._pins.review, slot.spec, tools)
            entry = msgspec.structs.replace(
                entry, tools=reviewed.accepted, held=reviewed.held, recent=reviewed.recent
            )
        is_new = self._published.entry(entry.name) != entry
        if is_new and self._slots.get(entry.name) is slot:
            self._published.publish_entry(entry)

    def _republish(self, entry: ServerEntry) -> None:
        """Publishes a reviewed entry, and has a connected server say what it lists now."""
        self._published.publish_entry(entry)
        if (slot := self._slots.get(entry.name)) is not None:
            slot.list_again()
