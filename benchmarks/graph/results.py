"""What a task found, as rows and as comparisons."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.quality import compare
from benchmarks.quality.compare import MACRO

Figures: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Result:
    """One engine's figures for one task on one dataset, item by item."""

    dataset: str
    task: str
    engine: str
    figures: tuple[Figures, ...]

    @property
    def means(self) -> Figures:
        """The mean of each figure."""
        names = self.figures[0] if self.figures else {}
        return {
            name: math.fsum(each[name] for each in self.figures) / len(self.figures)
            for name in names
        }

    def row(self) -> dict[str, Any]:
        """As it is printed and written to JSON."""
        rounded = {name: round(value, 4) for name, value in self.means.items()}
        items = len(self.figures)
        return {
            "dataset": self.dataset,
            "task": self.task,
            "engine": self.engine,
            "items": items,
        } | rounded


def averages(results: Sequence[Result]) -> list[dict[str, Any]]:
    """For every task and engine the mean over datasets, whatever their sizes."""
    rows: list[dict[str, Any]] = []
    for task, engine in dict.fromkeys((each.task, each.engine) for each in results):
        found = [each for each in results if (each.task, each.engine) == (task, engine)]
        if len(found) > 1 and all(each.figures for each in found):
            means = [each.means for each in found]
            mean = {n: round(math.fsum(m[n] for m in means) / len(means), 4) for n in means[0]}
            items = sum(len(each.figures) for each in found)
            rows.append({"dataset": MACRO, "task": task, "engine": engine, "items": items} | mean)
    return rows


def compared(
    results: Sequence[Result], pairs: Iterable[tuple[str, str, str, str]]
) -> list[dict[str, Any]]:
    """For each (task, metric, first, second): is the first engine better? Paired bootstraps."""
    rows: list[dict[str, Any]] = []
    for task, metric, first, second in pairs:
        of = {(each.dataset, each.engine): each for each in results if each.task == task}
        differences = {
            dataset: [
                a[metric] - b[metric]
                for a, b in zip(one.figures, of[dataset, second].figures, strict=True)
            ]
            for (dataset, engine), one in of.items()
            if engine == first and (dataset, second) in of and one.figures
        }
        rows += [
            {
                "dataset": found.dataset,
                "task": task,
                "metric": metric,
                "engines": [first, second],
                "difference": round(found.difference, 4),
                "low": round(found.low, 4),
                "high": round(found.high, 4),
                "p": round(found.p, 4),
            }
            for found in compare.compare(differences)
        ]
    return rows
