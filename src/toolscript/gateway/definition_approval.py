"""Approves and rejects changed definitions, which are held until a person decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import anyio.to_thread
import msgspec

from toolscript.gateway.catalogue import ObservableCatalogue, ServerEntry, contents_of
from toolscript.gateway.definitions.comparison import HeldTool, Version
from toolscript.gateway.definitions.pins import DefinitionPins
from toolscript.gateway.managed_server import ManagedServer
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
        await self._compare_again(spec)

    async def reject(self, spec: ServerSpec, chosen: Sequence[HeldTool]) -> None:
        """Keeps some definitions of one server held, also those that were accepted before.

        Raises `DecisionStorageError`.
        """
        await anyio.to_thread.run_sync(self.pins.reject, spec, chosen)
        await self._compare_again(spec)

    async def review(self, managed: ManagedServer, entry: ServerEntry) -> None:
        """Publishes an entry as the accepted definitions have it now."""
        if entry.state == "ready":
            entry = await self._compare(managed.spec, entry)
        is_new = self.catalogue.entry(entry.name) != entry
        if is_new and self.managed.get(entry.name) is managed:
            self.catalogue.publish_entry(entry)

    async def _compare_again(self, spec: ServerSpec) -> None:
        """Publishes a server's entry after a decision, and has a connected one list its tools."""
        while (entry := self.catalogue.entry(spec.name)) is not None:
            compared = await self._compare(spec, entry)
            if self.catalogue.entry(spec.name) is entry:  # else it was listed meanwhile
                self.catalogue.publish_entry(compared)
                break
        if (managed := self.managed.get(spec.name)) is not None:
            managed.list_again()

    async def _compare(self, spec: ServerSpec, entry: ServerEntry) -> ServerEntry:
        """Returns an entry of a server as the accepted definitions have it now."""
        tools = (*entry.tools, *(held.tool for held in entry.held))
        reviewed = await anyio.to_thread.run_sync(self.pins.review, spec, tools)
        return msgspec.structs.replace(entry, **contents_of(reviewed))
