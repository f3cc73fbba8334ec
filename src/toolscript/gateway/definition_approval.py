"""Approves and rejects changed definitions, which are held until a person decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio.to_thread
import msgspec

from toolscript.gateway.catalogue import ServerEntry, by_kind, contents_of
from toolscript.gateway.definitions.comparison import HeldTool, RecentChange, Version
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.managed_server import ManagedServer
from toolscript.gateway.observable_catalogue import ObservableCatalogue
from toolscript.types import ServerSpec, ToolSpec


@dataclass(eq=False)
class DefinitionApproval:
    """Applies the decisions about held definitions to the catalogue.

    Entries of servers are compared with the definitions that were accepted.
    """

    pins: DefinitionPins
    """The definitions that were accepted."""
    catalogue: ObservableCatalogue
    """The catalogue."""
    managed: Mapping[str, ManagedServer]
    """The servers that run, by name."""

    async def versions(self, tool: ToolSpec) -> tuple[Version, ...]:
        """Returns the definitions of a tool that were accepted, the newest last."""
        return await anyio.to_thread.run_sync(self.pins.versions, tool)

    async def approve(self, spec: ServerSpec, chosen: Sequence[HeldTool]) -> None:
        """Accepts some held definitions of one server. Raises `DecisionStorageError`."""
        entry = self.catalogue.entry(spec.name)
        left = [each for each in entry.held if each not in chosen] if entry else []
        await anyio.to_thread.run_sync(partial(self.pins.approve, spec, chosen, left=left))
        entry = self.catalogue.entry(spec.name)
        if entry is None:
            return
        tools = {tool.name: tool for tool in (*entry.tools, *entry.skills)}
        tools |= {each.tool.name: each.tool for each in entry.held if each in chosen}
        still = tuple(each for each in entry.held if each not in chosen)
        self._republish(
            msgspec.structs.replace(
                entry,
                **by_kind(tools.values()),
                held=still,
                recent=_not_recent(entry, chosen),
            )
        )

    async def reject(self, spec: ServerSpec, chosen: Sequence[HeldTool]) -> None:
        """Keeps some definitions of one server held, also those that were accepted before.

        Raises `DecisionStorageError`.
        """
        await anyio.to_thread.run_sync(self.pins.reject, spec, chosen)
        entry = self.catalogue.entry(spec.name)
        if entry is None:
            return
        marked = tuple(
            msgspec.structs.replace(each, rejected=True) if each in chosen else each
            for each in entry.held
        )
        names = {each.tool.name for each in chosen}
        withdrawn = tuple(each for each in chosen if each not in entry.held)
        left = (each for each in (*entry.tools, *entry.skills) if each.name not in names)
        self._republish(
            msgspec.structs.replace(
                entry,
                **by_kind(left),
                held=(*marked, *withdrawn),
                recent=_not_recent(entry, chosen),
            )
        )

    async def review(self, managed: ManagedServer, entry: ServerEntry) -> None:
        """Publishes an entry as the accepted definitions have it now."""
        if entry.state == "ready":
            tools = (*entry.tools, *entry.skills, *(held.tool for held in entry.held))
            reviewed = await anyio.to_thread.run_sync(self.pins.review, managed.spec, tools)
            entry = msgspec.structs.replace(entry, **contents_of(reviewed))
        is_new = self.catalogue.entry(entry.name) != entry
        if is_new and self.managed.get(entry.name) is managed:
            self.catalogue.publish_entry(entry)

    def _republish(self, entry: ServerEntry) -> None:
        """Publishes a reviewed entry, and has a connected server list its tools again."""
        self.catalogue.publish_entry(entry)
        if (managed := self.managed.get(entry.name)) is not None:
            managed.list_again()


def _not_recent(entry: ServerEntry, chosen: Sequence[HeldTool]) -> dict[str, RecentChange]:
    """Returns the recent changes of an entry without those of the chosen tools."""
    names = {each.tool.name for each in chosen}
    return {name: each for name, each in entry.recent.items() if name not in names}
