"""The usage of tools: for each the mean of the questions that led to it.

Only that mean is stored, as a vector of the model that made it: no question can be
read from it.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from toolscript.embedding.base import Vectors

MAX_COUNT = 200.0
"""With more questions older ones count less."""
MAX_TOOLS = 50_000

LearnedVector: TypeAlias = tuple[float, Vectors]
"""The number of questions, and the sum of their vectors: float32 [dim]."""


@dataclass(slots=True)
class UsageChange:
    """Learned vectors, by tool and model."""

    learned: dict[tuple[str, str], LearnedVector] = field(
        default_factory=dict[tuple[str, str], LearnedVector]
    )
    whole: bool = False
    """They replace the file's contents instead of being added to them."""

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.learned) or self.whole

    def add(self, tool: str, model: str, vector: Vectors, count: float = 1.0) -> None:
        """Add one question, or a sum of several.

        Where the model's vectors have another length than before, those before are dropped.
        """
        none = (0.0, np.zeros_like(vector))
        known, total = self.learned.get((tool, model), none)
        if total.shape != vector.shape:
            known, total = none
        known, total = known + count, total + vector
        if known > MAX_COUNT:
            total, known = (total * (MAX_COUNT / known)).astype(np.float32), MAX_COUNT
        self.learned[tool, model] = known, total

    def merge(self, later: "UsageChange") -> None:
        """Add a later change to this one."""
        if later.whole:
            self.learned, self.whole = {}, True
        for (tool, model), (count, total) in later.learned.items():
            self.add(tool, model, total, count)


class Usage:
    """Every tool's questions. Thread-safe; ``version`` changes with every change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = UsageChange()
        self._change = UsageChange()
        self.version = 0

    def learn(self, tool: str, model: str, vector: Vectors) -> None:
        """Add a question, embedded by this model, that led to the tool's use."""
        with self._lock:
            if len(self._all.learned) < MAX_TOOLS or (tool, model) in self._all.learned:
                self._all.add(tool, model, vector)
                self._change.add(tool, model, vector)
                self.version += 1

    def of(self, model: str) -> Mapping[str, LearnedVector]:
        """Returns the learned vectors of one model, by tool."""
        with self._lock:
            return {
                tool: known for (tool, name), known in self._all.learned.items() if name == model
            }

    def drain_changes(self) -> UsageChange:
        """Returns what was learned since the last call, to be added to the file."""
        with self._lock:
            change, self._change = self._change, UsageChange()
            return change

    def requeue(self, change: UsageChange) -> None:
        """Put back a drained change that could not be stored."""
        with self._lock:
            change.merge(self._change)
            self._change = change

    def drain_all(self) -> UsageChange:
        """Returns everything, to replace the file's contents; leaves no change to drain."""
        with self._lock:
            self._change = UsageChange()
            return UsageChange(dict(self._all.learned), whole=True)

    def rebase(self, stored: UsageChange) -> None:
        """Put what was stored before what was learned without it and is not stored yet."""
        with self._lock:
            self._all = UsageChange(dict(stored.learned))
            self._all.merge(self._change)
            self.version += 1

    def merge(self, stored: UsageChange) -> None:
        """Add what another process has learned and stored."""
        with self._lock:
            self._all.merge(stored)
            self.version += 1

    def clear(self) -> None:
        """Forget everything; the next change clears the file."""
        with self._lock:
            self._all, self._change = UsageChange(), UsageChange(whole=True)
            self.version += 1
