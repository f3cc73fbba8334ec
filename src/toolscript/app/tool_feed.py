"""The gateway's tools as a feed for a live index: as documents, and as a snapshot on the disk."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.gateway.gateway import Gateway
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.gateway.tool_repairs import RepairedTools
from toolscript.types import Document, ToolSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Read:
    """The documents of one server's tools."""

    tools: tuple[ToolSpec, ...]
    held: tuple[HeldTool, ...]
    documents: tuple[Document, ...]

    @classmethod
    def of(cls, shown: RepairedTools) -> "_Read":
        held = (each.pinned for each in shown.held)
        specs = (*shown.tools, *held)
        documents = tuple(Document.of(spec) for spec in specs if spec.is_for_models)
        return cls(shown.tools, shown.held, documents)


class ToolFeed:
    """Brings a gateway's catalogues: see `Feed`."""

    noun = "tools"

    def __init__(self, gateway: Gateway, snapshots: SnapshotStore) -> None:
        self._gateway = gateway
        self._snapshots = snapshots
        self._saved: Catalogue | None = None
        self._read: dict[str, _Read] = {}

    @property
    def catalogue(self) -> Catalogue:
        """See `Feed`."""
        return self._gateway.catalogue

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """See `Feed`."""
        return await self._gateway.changed(seen)

    def documents(self, catalogue: Catalogue) -> Sequence[Document]:
        """See `Feed`.

        Held tools are among them as they were accepted: searches say so if one would answer.
        Only servers whose entries have changed are read again; the documents of the others are
        the same objects as before.
        """
        self._read = {
            name: known
            if (known := self._read.get(name)) is not None
            and known.tools is shown.tools
            and known.held is shown.held
            else _Read.of(shown)
            for name, shown in ((name, catalogue.tools_of(name)) for name in catalogue.servers)
        }
        documents = chain.from_iterable(read.documents for read in self._read.values())
        return sorted(documents, key=attrgetter("id"))

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
