"""What the graph costs: time, for a catalogue and a graph of any size.

- *search*: one search without and one with a context of three tools, the
  question's embedding remembered; what the context adds;
- *start*: reading the graph from the disk;
- *record*: noting one call on the caller's path; *learn*: learning it, in the
  thread behind; medians, and the slowest hundredth.

The tools are the first of ``wild_mcp``, or whatever there is, with random vectors;
the edges are drawn by how popular tools are (Zipf), so that there are hubs.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.graph.results import Figures, Result
from benchmarks.quality import datasets
from benchmarks.quality.own import document, encoder, semantic
from toolscript.config.settings import OPTION
from toolscript.embedding.base import CachedVector
from toolscript.graph.graph_store import GraphStore
from toolscript.graph.learning import Learning
from toolscript.graph.session_history import SessionHistory
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage
from toolscript.retrieval.engine import SearchEngine
from toolscript.retrieval.lexical.bm25f import LexicalSignal
from toolscript.retrieval.profiles import search_profile
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.types import Document, SearchRequest

TOOLS, EDGES = 10_000, 200_000
ROUNDS = 200
QUESTION = "find the issues that were closed last week"


def run(folder: Path, sample: int | None) -> list[Result]:
    """Everything, at `TOOLS` and `EDGES`; ``sample`` is how many tools at most."""
    tools = datasets.tools(folder)[: sample or TOOLS]
    documents = sorted((document(tool) for tool in tools), key=lambda each: each.id)
    edges = EDGES * len(documents) // TOOLS
    with tempfile.TemporaryDirectory() as directory:
        learning = Learning(GraphStore(Path(directory), "cost"))
        filled(learning.graph, [each.id for each in documents], edges)
        kept = _milliseconds(learning.flush)
        again = ToolGraph()
        start = [_milliseconds(lambda: _read(directory, again)) for _ in range(7)]
        held = learning.graph.edge_count
        searched = _searches(documents, learning)
        recorded = _recorded(learning, documents)
    figures: Figures = {
        "tools": float(len(documents)),
        "edges": float(held),
        **searched,
        "start_ms": statistics.median(start),
        "start_best_ms": min(start),
        "write_all_ms": kept,
        **recorded,
    }
    return [Result(folder.name, "cost", "graph", (figures,))]


def filled(graph: ToolGraph, ids: list[str], edges: int) -> None:
    """Learn pairs of tools until there are so many edges."""
    random = np.random.default_rng(0)
    popular = 1.0 / (np.arange(len(ids)) + 10.0)
    order = random.permutation(len(ids))
    edges = min(edges, len(ids) * (len(ids) - 1) // 4)
    while graph.edge_count < edges:
        drawn: list[list[int]] = random.choice(
            order, size=(edges, 2), p=popular / popular.sum()
        ).tolist()
        for first, second in drawn:
            if graph.edge_count >= edges:
                return
            graph.observe((ids[first],), ids[second])


def _searches(documents: list[Document], learning: Learning) -> Figures:
    model, random = encoder(), np.random.default_rng(0)
    signal = semantic()
    vectors = random.normal(size=(len(documents), model.dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    know(signal, documents, vectors)
    profile = search_profile(OPTION["alpha"].default, OPTION["limit"].default, 0.0)
    engine = SearchEngine(profile, LexicalSignal(), signal, learning)
    engine.update(documents)
    ids = [each.id for each in documents]
    drawn: list[list[int]] = random.integers(0, len(ids), (ROUNDS, 3)).tolist()
    contexts = [tuple(ids[row] for row in three) for three in drawn]
    plain: list[float] = []
    known: list[float] = []
    for context in contexts:  # in turn, so that a busy moment of the machine's is shared
        request = SearchRequest(text=QUESTION)
        plain.append(_milliseconds(lambda r=request: engine.search(r)))
        request = SearchRequest(text=QUESTION, context=context)
        known.append(_milliseconds(lambda r=request: engine.search(r)))
    more = [b - a for a, b in zip(plain[1:], known[1:], strict=True)]
    return {
        "search_ms": statistics.median(plain),
        "with_context_ms": statistics.median(known),
        "context_adds_ms": statistics.median(more),
        "context_adds_p10_ms": float(np.quantile(more, 0.1)),
        "context_adds_p95_ms": float(np.quantile(more, 0.95)),
    }


def know(signal: SemanticSignal, documents: list[Document], vectors: np.ndarray) -> None:
    """Have the signal know these vectors, as if it had embedded the documents."""
    known = zip(documents, vectors, strict=True)
    signal.take(encoder().name, {d.id: CachedVector(d.digest, v) for d, v in known})


def _recorded(learning: Learning, documents: list[Document]) -> Figures:
    history, noted, learned = SessionHistory(), list[float](), list[float]()
    for each in documents[:2000]:
        noted.append(
            _milliseconds(lambda i=each.id: learning.record_call(history, i, succeeded=True))
        )
    learning.close()
    context = tuple(each.id for each in documents[:8])
    for each in documents[:2000]:
        learned.append(_milliseconds(lambda i=each.id: learning.graph.observe(context, i)))
    return {
        "record_ms": statistics.median(noted),
        "record_p99_ms": float(np.quantile(noted, 0.99)),
        "learn_ms": statistics.median(learned),
    }


def _read(directory: str, graph: ToolGraph) -> None:
    GraphStore(Path(directory), "cost").load(graph, Usage())


def _milliseconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - begin)
