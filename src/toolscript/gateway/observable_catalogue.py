"""Holds the current catalogue, and wakes those who wait for another one."""

import anyio

from toolscript.gateway.catalogue import Catalogue, ServerEntry


class ObservableCatalogue:
    """The current catalogue. One event loop publishes; any thread may read.

    Args:
        current: The first one.
    """

    def __init__(self, current: Catalogue) -> None:
        self.current = current
        self._changed = anyio.Event()

    def publish(self, catalogue: Catalogue) -> None:
        """Makes this the current catalogue."""
        self.current = catalogue
        self._changed.set()
        self._changed = anyio.Event()

    def publish_entry(self, entry: ServerEntry) -> None:
        """Publishes the catalogue with another entry of one server."""
        self.publish(self.current.replacing(entry))

    def entry(self, server: str) -> ServerEntry | None:
        """Returns the state of a server."""
        return self.current.servers.get(server)

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """Returns the current catalogue, once it differs from ``seen``."""
        while self.current is seen:
            await self._changed.wait()
        return self.current
