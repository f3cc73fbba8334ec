"""Follows a feed of catalogues with a search engine: tools and skills are both indexed by this."""

import logging
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import anyio
import anyio.to_thread

from toolscript.retrieval.engine import SearchEngine
from toolscript.types import Document

log = logging.getLogger(__name__)
C = TypeVar("C")
"""A catalogue: an immutable snapshot."""


class Feed(Protocol[C]):
    """Brings one catalogue after the other."""

    @property
    def noun(self) -> str:
        """What a catalogue holds, in the plural, for the log."""
        ...

    @property
    def catalogue(self) -> C:
        """The latest one."""
        ...

    async def changed(self, seen: C | None) -> C:
        """Wait until the latest catalogue is another than ``seen``, and return it."""
        ...

    def documents(self, catalogue: C) -> Sequence[Document]:
        """Returns what is searched in a catalogue. Called off the event loop."""
        ...

    def save(self, catalogue: C) -> None:
        """Write an indexed catalogue down for the next start. Called off the event loop."""
        ...


class LiveIndex(Generic[C]):
    """Has an engine search the latest catalogue of a feed while `run` runs.

    Nothing else may update the engine. A catalogue that cannot be indexed is logged and
    reported by `fault`; searches go on with the one before.
    """

    def __init__(self, engine: SearchEngine, feed: Feed[C]) -> None:
        self.fault = ""
        """Why the index is out of date; empty while it is not."""
        self._engine = engine
        self._feed = feed
        self._indexed: C | None = None
        self._documents: Sequence[Document] | None = ()
        self._step = anyio.Event()

    @property
    def ready(self) -> bool:
        """Whether every signal covers the latest catalogue."""
        return self._indexed is self._feed.catalogue

    @property
    def indexed(self) -> int:
        """How many documents can be found."""
        return self._engine.indexed

    @property
    def waiting(self) -> int:
        """How many documents some signal does not cover yet."""
        return self._engine.waiting

    async def run(self) -> None:
        """Index and save each catalogue as it comes, until cancelled."""
        while True:
            catalogue = await self._feed.changed(self._indexed)
            await anyio.to_thread.run_sync(self._update, catalogue)
            self._indexed = catalogue
            self._step.set()
            self._step = anyio.Event()
            # A command that waits until all is indexed ends right after that.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._feed.save, catalogue)

    async def settled(self) -> None:
        """Return when `ready`."""
        while not self.ready:
            await self._step.wait()

    def _update(self, catalogue: C) -> None:
        def superseded() -> bool:
            return self._feed.catalogue is not catalogue

        try:
            documents = self._feed.documents(catalogue)
            if documents == self._documents:
                return
            self._documents = documents
            self._engine.update(documents, superseded)
            self.fault = ""
        except Exception as error:
            # A boundary: whatever is wrong with one catalogue, the searches go on.
            log.exception("the %s could not be indexed", self._feed.noun)
            self.fault = f"index: out of date ({type(error).__name__}: {error})"
        if superseded():  # perhaps before every signal was done
            self._documents = None
