"""Next tool: what the graph foresees, beside counting and beside popularity.

Every engine sees the same history and the same context, ranks all tools, and
none of those already used counts: no item asks for one. *hit@k*: whether what
came next is among the first k; *MRR*: 1 / its rank, 0 beyond the tenth.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.graph.data import Item, Used, load
from benchmarks.graph.results import Figures, Result
from benchmarks.quality.own import document, encoder, semantic
from toolscript.embedding.base import CachedVector
from toolscript.graph.graph_files import ImportedGraph, LoggedCall
from toolscript.graph.learning import Learning
from toolscript.graph.usage import Usage
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal

DEPTH = 10

Scores: TypeAlias = NDArray[np.float64]
Predict: TypeAlias = Callable[[Item], Scores]


@dataclass(frozen=True)
class Place:
    """A dataset as rows: tool id → row, in the order of the ids."""

    used: Used
    corpus: Corpus

    @cached_property
    def _embedded(self) -> SemanticSignal:
        """The dataset embedded, as the application would have it."""
        signal = semantic()
        for _ in signal.prepare(self.corpus):
            pass
        return signal

    def signal(self, usage: Usage) -> SemanticSignal:
        """A semantic signal that knows the embeddings, and learns from use."""
        signal = SemanticSignal(self._embedded.model, lambda: None, usage=usage)
        vectors = self._embedded.index(self.corpus).vectors
        known = zip(self.corpus.documents, () if vectors is None else vectors, strict=True)
        signal.take(encoder().name, {d.id: CachedVector(d.digest, v) for d, v in known})
        return signal

    @property
    def sequences(self) -> list[list[int]]:
        """The history as rows."""
        return [[self.corpus.rows[tool] for tool in s] for s in self.used.history.sequences]


def place(used: Used) -> Place:
    """The dataset with its tools as the application has them."""
    return Place(used, Corpus(document(tool) for tool in used.tools))


def popularity(place: Place) -> Predict:
    """How often each tool is used, whatever the context."""
    counts = np.zeros(len(place.corpus))
    for sequence in place.sequences:
        np.add.at(counts, sequence, 1)
    return lambda _: counts


def counting(place: Place) -> Predict:
    """Bigrams and co-occurrence: half the share of what followed the last tool, half the mean
    share of what was used together with each of the context; popularity breaks ties.

    Of the ways to put the two together that were tried (bigrams first, sums of
    counts, sums of shares), this one does best here.
    """  # noqa: D205 - one sentence is not enough
    following: defaultdict[int, Counter[int]] = defaultdict(Counter)
    together: defaultdict[int, Counter[int]] = defaultdict(Counter)
    popular = np.zeros(len(place.corpus))
    for sequence in place.sequences:
        for first, second in pairwise(sequence):
            following[first][second] += 1
        for tool in set(sequence):
            together[tool].update(set(sequence) - {tool})
        np.add.at(popular, sequence, 1)

    def predict(item: Item) -> Scores:
        context = [place.corpus.rows[tool] for tool in item.context]
        scores = 1e-3 * popular / (popular.sum() + 1)
        _add(scores, following[context[-1]], 0.5)
        for tool in context:
            _add(scores, together[tool], 0.5 / len(context))
        return scores

    return predict


def graph(place: Place) -> Predict:
    """Our graph, after it has learned the history in its order."""
    documents, learning = place.corpus.documents, Learning()
    forecast = learning.set_corpus(
        [each.id for each in documents], [each.server for each in documents]
    )
    learn_history(learning, place)

    def predict(item: Item) -> Scores:
        chances = forecast.chances(item.context)
        return np.zeros(len(place.corpus)) if chances is None else chances

    return predict


def learn_history(learning: Learning, place: Place) -> None:
    """Learn the history in its order, as `toolscript graph import` does."""
    history = tuple(tuple(map(LoggedCall, each)) for each in place.used.history.sequences)
    learning.import_known(ImportedGraph(sequences=history))


ENGINES: Mapping[str, Callable[[Place], Predict]] = {
    "popularity": popularity,
    "counting": counting,
    "graph": graph,
}
TASK, NOVEL = "next-tool", "next-tool-novel"
COMPARED = [
    (task, metric, "graph", "counting")
    for task in (TASK, NOVEL)
    for metric in ("hit1", "hit5", "mrr")
]


def run(folder: Path, sample: int | None) -> list[Result]:
    """All engines over one dataset, all items and the novel ones."""
    where = place(load(folder, sample))
    results: list[Result] = []
    for name, engine in ENGINES.items():
        found = measure(where, engine(where))
        fresh = [found[at] for at, item in enumerate(where.used.items) if not item.seen_chain]
        results.append(Result(folder.name, TASK, name, tuple(found)))
        results.append(Result(folder.name, NOVEL, name, tuple(fresh)))
    return results


def measure(place: Place, predict: Predict) -> list[Figures]:
    """One item's figures after the other."""
    return [figures(predict(item), item, place.corpus.rows) for item in place.used.items]


def figures(scores: Scores, item: Item, rows: Mapping[str, int]) -> Figures:
    """What one ranking is worth."""
    ranked = scores.astype(np.float64)
    ranked[[rows[tool] for tool in item.context]] = -np.inf
    wanted = {rows[tool] for tool in item.relevant}
    order = np.argsort(-ranked, kind="stable")[:DEPTH]
    rank = next((at for at, row in enumerate(order.tolist(), 1) if row in wanted), 0)
    return {
        "hit1": float(rank == 1),
        "hit5": float(0 < rank <= 5),
        "mrr": 1 / rank if rank else 0.0,
    }


def _add(scores: Scores, counts: Counter[int], share: float) -> None:
    total = sum(counts.values())
    for row, count in counts.items():
        scores[row] += share * count / total
