"""Every engine over every dataset."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from benchmarks.quality.datasets import Dataset, Tool
from benchmarks.quality.peers import Peer, PeerError
from toolscript.retrieval import quality_metrics as metrics
from toolscript.retrieval.quality_metrics import LABELS, Scores

EVERY = 20
"""Queries between two signs of progress."""


class Engine(Protocol):
    """What is measured: `Timed` in this process, `Peer` in another."""

    def index(self, tools: Sequence[Tool]) -> float:
        """Take in a catalogue; the seconds it took."""
        ...

    def search(self, text: str) -> tuple[list[str], float]:
        """The ids found, best first, and the milliseconds it took."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


@dataclass(frozen=True, slots=True)
class Result:
    """One engine's figures on one dataset."""

    dataset: str
    engine: str
    index_s: float
    scores: tuple[Scores, ...]
    """Per query, in the dataset's order."""
    milliseconds: tuple[float, ...]

    @property
    def means(self) -> Scores:
        """The mean of each figure over the queries."""
        return metrics.mean(self.scores)

    def row(self) -> dict[str, Any]:
        """As it is written to JSON."""
        p50, p95 = np.percentile(self.milliseconds, [50, 95])
        return {
            "dataset": self.dataset,
            "engine": self.engine,
            "queries": len(self.scores),
            **{name: round(value, 4) for name, value in self.means.items()},
            "p50_ms": round(float(p50), 3),
            "p95_ms": round(float(p95), 3),
            "index_s": round(self.index_s, 3),
        }


@dataclass(slots=True)
class Measured:
    """What a run has found so far."""

    results: list[Result] = field(default_factory=list[Result])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """``engine on dataset`` → what went wrong."""
    versions: dict[str, str] = field(default_factory=dict[str, str])
    """Peer → package and version."""

    def of(self, engine: str) -> list[Result]:
        """One engine's results."""
        return [result for result in self.results if result.engine == engine]

    def macro(self, engine: str) -> Scores | None:
        """The mean over datasets; None where the engine failed on one of them."""
        found = self.of(engine)
        if not found or any(name.startswith(f"{engine} on ") for name in self.failed):
            return None
        return metrics.mean([result.means for result in found])

    def differences(self, first: str, second: str, metric: str) -> dict[str, list[float]]:
        """Per dataset that both answered: the first's figure less the second's, query by query."""
        others = {result.dataset: result for result in self.of(second)}
        return {
            result.dataset: [
                a[metric] - b[metric]
                for a, b in zip(result.scores, others[result.dataset].scores, strict=True)
            ]
            for result in self.of(first)
            if result.dataset in others
        }


def measure(datasets: Sequence[Dataset], engines: Mapping[str, Engine]) -> Measured:
    """Ask everything. An engine that fails on a dataset is left out there, and said to be."""
    measured = Measured()
    for name, engine in engines.items():
        if isinstance(engine, Peer):
            measured.versions[name] = engine.version
    for dataset in datasets:
        for name, engine in engines.items():
            try:
                measured.results.append(_one(dataset, name, engine))
            except PeerError as error:
                measured.failed[f"{name} on {dataset.name}"] = str(error)
    return measured


def _one(dataset: Dataset, name: str, engine: Engine) -> Result:
    _progress(f"{dataset.name}: {name}: indexing {len(dataset.tools)} tools")
    index_s = engine.index(dataset.tools)
    scores: list[Scores] = []
    milliseconds: list[float] = []
    for number, query in enumerate(dataset.queries):
        if number % EVERY == 0:
            _progress(f"{dataset.name}: {name}: query {number} of {len(dataset.queries)}")
        found, elapsed = engine.search(query.query)
        scores.append(metrics.score(found, query.relevant))
        milliseconds.append(elapsed)
    _progress("")
    return Result(dataset.name, name, index_s, tuple(scores), tuple(milliseconds))


def _progress(text: str) -> None:
    """Replace the line on standard error, if somebody looks at it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def below(measured: Measured, engine: str, floors: Mapping[str, float]) -> list[str]:
    """One line for each figure of the engine that is under its floor, on any dataset."""
    return [
        f"{engine} on {result.dataset}: {LABELS[metric]} is {result.means[metric]:.4f}, "
        f"below {floor:g}"
        for result in measured.of(engine)
        for metric, floor in floors.items()
        if result.means[metric] < floor and not math.isclose(result.means[metric], floor)
    ]
