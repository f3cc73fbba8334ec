"""Our own engines: each signal alone, both together, and the bare model."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

import msgspec
import numpy as np

from benchmarks.quality.datasets import Tool
from benchmarks.quality.timed import Build, Find
from toolscript.config.settings import MAX_QUERY_CHARS, OPTION
from toolscript.embedding.base import Encoder
from toolscript.embedding.loader import LazyModel, load_model
from toolscript.errors import ModelError
from toolscript.retrieval.base import Corpus, Query
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.quality_metrics import DEPTH
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest, ToolSpec


@cache
def bundled() -> LazyModel:
    """The bundled model, loaded once. Without it nothing is measured: raises `ModelError`."""
    model = LazyModel(lambda: load_model("bundled", "bundled", 0))
    if model.get().encoder is None:
        raise ModelError(model.get().degraded)
    return model


def encoder() -> Encoder:
    """The bundled model's encoder; raises `ModelError` when it is missing."""
    return cast("Encoder", bundled().get().encoder)


def document(tool: Tool) -> Document:
    """The tool as the gateway would list it, under the dataset's id."""
    spec = ToolSpec(
        server=tool.server,
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema or {},
    )
    return msgspec.structs.replace(Document.of(spec), id=tool.id)


def _engine(make: Callable[[], SemanticSignal | None]) -> Build:
    """The whole engine as the application wires it, with nothing kept back by a threshold."""

    def build(tools: Sequence[Tool]) -> Find:
        profile = search_profile(OPTION["alpha"].default, limit=DEPTH, threshold=0.0)
        engine = SearchEngine(profile, semantic=make())
        engine.update([document(tool) for tool in tools])

        def find(text: str) -> list[str]:
            hits = engine.search(SearchRequest(text=text[:MAX_QUERY_CHARS])).hits
            return [hit.document.id for hit in hits]

        return find

    return build


def _alone(make: Callable[[], LexicalSignal | SemanticSignal]) -> Build:
    """One signal's ranking, without names, capabilities or fusion."""

    def build(tools: Sequence[Tool]) -> Find:
        corpus, signal = Corpus(document(tool) for tool in tools), make()
        for _ in signal.prepare(corpus) if isinstance(signal, SemanticSignal) else ():
            pass
        index = signal.index(corpus)

        def find(text: str) -> list[str]:
            scores = np.nan_to_num(index.rank(Query(text.strip())).scores)
            rows = np.argsort(-scores, kind="stable")[:DEPTH]
            return [corpus.documents[int(row)].id for row in rows if scores[row] > 0]

        return find

    return build


def cosine(tools: Sequence[Tool], model: Encoder) -> Find:
    """A model and nothing else: cosine to ``server name: description``."""
    texts = [f"{tool.server} {tool.name}: {tool.description or ''}" for tool in tools]
    vectors = model.documents(texts)

    def find(text: str) -> list[str]:
        cosines = vectors @ model.query(text)
        return [tools[int(row)].id for row in np.argsort(-cosines, kind="stable")[:DEPTH]]

    return find


def semantic() -> SemanticSignal:
    """The semantic signal with the bundled model, without a cache."""
    return SemanticSignal(bundled(), cache=lambda: None)


OWN: dict[str, Build] = {
    "toolscript": _engine(semantic),
    "toolscript-lexical": _engine(lambda: None),
    "semantic": _alone(semantic),
    "fuzzy": _alone(LexicalSignal),
    "minilm": lambda tools: cosine(tools, encoder()),
}
