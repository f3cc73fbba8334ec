"""Follows a feed of catalogues with a search engine: tools and skills are both indexed by this."""

import logging
import math
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.errors import SearchTimeoutError
from toolscript.retrieval.engine import SearchEngine
from toolscript.types import Document, SearchRequest, SearchResult

log = logging.getLogger(__name__)
C = TypeVar("C")
"""A catalogue: an immutable snapshot."""
SEARCH_TIMEOUT_S = 10.0
RETRY_S, MAX_RETRY_S = 5.0, 300.0
"""The first pause before a catalogue that was not indexed in full is indexed again, and the longest
one: each is twice as long as the one before."""


class Feed(Protocol[C]):
    """Brings one catalogue after the other."""

    @property
    def noun(self) -> str:
        """The name of the documents, in the plural, for the log."""
        ...

    @property
    def catalogue(self) -> C:
        """The latest one."""
        ...

    async def changed(self, seen: C | None) -> C:
        """Returns the latest catalogue once it is another than ``seen``."""
        ...

    def documents(self, catalogue: C) -> Sequence[Document]:
        """Returns the documents of a catalogue. Called off the event loop."""
        ...

    def save(self, catalogue: C) -> None:
        """Write an indexed catalogue down for the next start. Called off the event loop."""
        ...


class LiveIndex(Generic[C]):
    """Has an engine search the latest catalogue of a feed while `run` runs.

    Nothing else may update the engine. A catalogue that cannot be indexed is logged and
    reported by `fault`; searches go on with the one before.
    """

    def __init__(
        self,
        engine: SearchEngine,
        feed: Feed[C],
        search_timeout_s: float = SEARCH_TIMEOUT_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self._retry_s = retry_s
        self.engine = engine
        self.fault = ""
        """Why the index is out of date; empty while it is not."""
        self.feed = feed
        self._search_timeout_s = search_timeout_s
        self._indexed: C | None = None
        self._documents: Sequence[Document] | None = ()
        self._step = anyio.Event()

    @property
    def ready(self) -> bool:
        """Whether every signal covers the latest catalogue."""
        return self._indexed is self.feed.catalogue

    @property
    def indexed(self) -> int:
        """How many documents can be found."""
        return self.engine.indexed

    @property
    def waiting(self) -> int:
        """How many documents some signal does not cover yet."""
        return self.engine.waiting

    async def search(self, request: SearchRequest) -> SearchResult:
        """Search off the event loop; the result says so if the index is out of date.

        Raises `SearchTimeoutError` after ``search_timeout_s`` seconds, and what
        `SearchEngine.search` raises.
        """
        fault = self.fault
        with anyio.move_on_after(self._search_timeout_s):
            result = await anyio.to_thread.run_sync(
                self.engine.search, request, abandon_on_cancel=True
            )
            return replace(result, degraded=(*result.degraded, fault)) if fault else result
        raise SearchTimeoutError(
            f"the search took longer than {self._search_timeout_s:g} s; try a shorter query"
        )

    async def run(self) -> None:
        """Index and save each catalogue as it comes, until cancelled."""
        pause_s = self._retry_s
        while True:
            with anyio.move_on_after(math.inf if self._documents is not None else pause_s):
                await self.feed.changed(self._indexed)
            catalogue = self.feed.catalogue
            is_new = catalogue is not self._indexed
            pause_s = self._retry_s if is_new else min(2 * pause_s, MAX_RETRY_S)
            await anyio.to_thread.run_sync(self._update, catalogue)
            self._indexed = catalogue
            self._step.set()
            self._step = anyio.Event()
            # A command that waits until all is indexed ends right after that.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.feed.save, catalogue)

    async def settled(self) -> None:
        """Return when `ready`."""
        while not self.ready:
            await self._step.wait()

    def _update(self, catalogue: C) -> None:
        def is_superseded() -> bool:
            return self.feed.catalogue is not catalogue

        try:
            documents = self.feed.documents(catalogue)
            if documents == self._documents:
                return
            self._documents = documents
            self.engine.update(documents, is_superseded)
            self.fault = ""
        except Exception as error:
            # A boundary: whatever is wrong with one catalogue, the searches go on.
            log.exception("the %s could not be indexed", self.feed.noun)
            self.fault = f"index: out of date ({type(error).__name__}: {error})"
        # Not every signal may be done.
        if self.fault or is_superseded() or self.engine.is_incomplete:
            self._documents = None
