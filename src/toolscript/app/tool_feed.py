"""The gateway's tools as a feed for a live index: as documents, and as a snapshot on the disk."""

import logging
from collections.abc import Sequence

from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.inference import inferred
from toolscript.graph.learning import Learning
from toolscript.types import Document

log = logging.getLogger(__name__)


class ToolFeed:
    """Brings a gateway's catalogues: see `Feed`."""

    noun = "tools"

    def __init__(
        self, gateway: Gateway, snapshots: SnapshotStore, learning: Learning | None = None
    ) -> None:
        self._gateway = gateway
        self._snapshots = snapshots
        self._learning = learning
        self._saved: Catalogue | None = None

    @property
    def catalogue(self) -> Catalogue:
        """See `Feed`."""
        return self._gateway.catalogue

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """See `Feed`."""
        return await self._gateway.changed(seen)

    def documents(self, catalogue: Catalogue) -> Sequence[Document]:
        """See `Feed`. What the tools' schemas say of each other goes into the graph."""
        if self._learning is not None:
            self._learning.graph.set_inferred(inferred(catalogue.tools.values()))
        return [Document.of(tool) for tool in catalogue.tools.values()]

    def save(self, catalogue: Catalogue) -> None:
        """See `Feed`."""
        if self._saved is catalogue:
            return
        self._saved = catalogue
        try:
            self._snapshots.save(catalogue)
        except Exception:
            # A boundary: whatever a server lists, the gateway goes on without a snapshot.
            log.exception("the snapshot of the catalogue could not be saved")
