"""The index of the latest catalogue: what could not be indexed in full is indexed again."""

from collections.abc import Sequence
from typing import Any, cast

import anyio
import pytest

from tests.signals import Broken, signal_of
from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.loader import LazyModel, Loaded
from toolscript.errors import UnreachableError
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.live_index import LiveIndex
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest


class OneCatalogue:
    """A feed whose catalogue never changes."""

    noun = "tools"
    catalogue = (Document(id="files__read_file", server="files", name="read_file"),)

    async def changed(self, seen: object) -> tuple[Document, ...]:
        if seen is self.catalogue:
            await anyio.sleep_forever()
        return self.catalogue

    def documents(self, catalogue: tuple[Document, ...]) -> Sequence[Document]:
        return catalogue

    def save(self, catalogue: tuple[Document, ...]) -> None:
        del catalogue


class ReachedLater:
    """A model that cannot be reached for the first documents."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._failures = 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def documents(self, texts: Sequence[str]) -> Vectors:
        self._failures -= 1
        if self._failures == 0:
            raise UnreachableError("the model cannot be reached")
        return self._encoder.documents(texts)


@pytest.mark.parametrize("kind", ["fails", "cannot be reached"])
def test_what_was_not_indexed_in_full_is_indexed_again(encoder: Encoder, *, kind: str) -> None:
    """search:degraded: though no tool has changed."""
    later = cast("Encoder", ReachedLater(encoder))
    unreached = SemanticSignal(LazyModel(lambda: Loaded(later)), lambda: None)
    signal = signal_of(Broken(failures=1)) if kind == "fails" else unreached
    engine = SearchEngine(search_profile(0.7, 3, 0.0), semantic=signal)
    index = LiveIndex(engine, OneCatalogue(), retry_s=0.2)

    async def degraded() -> tuple[str, ...]:
        return (await index.search(SearchRequest(text="read"))).degraded

    async def scenario() -> tuple[str, ...]:
        first: tuple[str, ...] = ()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(index.run)
            await index.settled()
            first = await degraded()
            with anyio.fail_after(20):
                while await degraded():  # noqa: ASYNC110 - a search has no event
                    await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
        return first

    [*_, told] = anyio.run(scenario)
    assert told.startswith("index: out of date" if kind == "fails" else "semantic: 1 of 1 tools")
