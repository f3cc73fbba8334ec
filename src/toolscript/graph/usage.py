"""What a tool was found by: the mean of the questions that led to its use.

Only that mean is kept, as a vector of the model that made it: no question can be
read from it.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from toolscript.embedding.base import Vectors

MAX_COUNT = 200.0
"""Beyond that many questions older ones count less."""
MAX_TOOLS = 50_000

LearnedVector: TypeAlias = tuple[float, Vectors]
"""How many questions, and the sum of their vectors: float32 [dim]."""


@dataclass(slots=True)
class UsageChange:
    """What was learned, by tool and model."""

    learned: dict[tuple[str, str], LearnedVector] = field(
        default_factory=dict[tuple[str, str], LearnedVector]
    )
    whole: bool = False
    """It is everything: whatever is on the disk is gone."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.learned) or self.whole

    def add(self, tool: str, model: str, vector: Vectors, count: float = 1.0) -> None:
        """Count one question, or a sum of several."""
        known, total = self.learned.get((tool, model), (0.0, np.zeros_like(vector)))
        known, total = known + count, total + vector
        if known > MAX_COUNT:
            total, known = (total * (MAX_COUNT / known)).astype(np.float32), MAX_COUNT
        self.learned[tool, model] = known, total


class Usage:
    """Every tool's questions. Thread-safe; ``version`` changes with what it holds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = UsageChange()
        self._change = UsageChange()
        self.version = 0

    def learn(self, tool: str, model: str, vector: Vectors) -> None:
        """A question, embedded by this model, led to the tool's use."""
        with self._lock:
            if len(self._all.learned) < MAX_TOOLS or (tool, model) in self._all.learned:
                self._all.add(tool, model, vector)
                self._change.add(tool, model, vector)
                self.version += 1

    def of(self, model: str) -> Mapping[str, LearnedVector]:
        """What is known of each tool's questions, as this model embeds them."""
        with self._lock:
            return {
                tool: known for (tool, name), known in self._all.learned.items() if name == model
            }

    def drain_changes(self) -> UsageChange:
        """What was learned since this was last asked."""
        with self._lock:
            change, self._change = self._change, UsageChange()
            return change

    def requeue(self, change: UsageChange) -> None:
        """What was taken could not be kept: it is handed out again."""
        with self._lock:
            later, self._change = self._change, change
            if later.whole:
                self._change = later
                return
            for (tool, model), (count, total) in later.learned.items():
                self._change.add(tool, model, total, count)

    def drain_all(self) -> UsageChange:
        """All there is, to be kept where nothing is; none of it is taken again."""
        with self._lock:
            self._change = UsageChange()
            return UsageChange(dict(self._all.learned), whole=True)

    def restore(self, change: UsageChange) -> None:
        """Take over what was kept."""
        with self._lock:
            for (tool, model), (count, total) in change.learned.items():
                self._all.add(tool, model, total, count)
            self.version += 1

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._all, self._change = UsageChange(), UsageChange(whole=True)
            self.version += 1
