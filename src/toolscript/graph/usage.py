"""The usage of tools: for each the mean of the questions that led to it.

Only that mean is stored, as a vector of the model that made it: no question can be
read from it. Each holder's questions are stored by themselves, so that fake uses move
nobody else's search, or little: see `Usage.of`.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.types import EVERYTHING, Grant

MAX_COUNT = 200.0
"""With more questions older ones count less."""
MAX_TOOLS = 50_000
MAX_OWN_TOOLS = 1_000
"""The maximum number of tools whose uses by one holder are kept, the owner aside."""
_BY, _SHARED = "\n", "+"
"""The separator of tool and holder in a key, and the mark of a holder who teaches others, too."""

LearnedVector: TypeAlias = tuple[float, Vectors]
"""The number of questions, and the sum of their vectors: float32 [dim]."""


def teaches_fully(grant: Grant) -> bool:
    """Whether all that a caller does counts for everybody: the owner, or anyone without tokens."""
    return grant.is_whole and (grant.anonymous or grant.holder == EVERYTHING.holder)


def key_of(tool: str, grant: Grant) -> str:
    """Returns the key of the uses of a tool by a caller: the id alone for the owner."""
    if teaches_fully(grant):
        return tool
    return f"{tool}{_BY}{_SHARED * grant.is_whole}{grant.holder}"


@dataclass(slots=True)
class UsageChange:
    """Learned vectors, by key (see `key_of`) and model."""

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

        If the model's vectors have another length than before, those before are dropped.
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

    def learn(self, tool: str, model: str, vector: Vectors, grant: Grant = EVERYTHING) -> None:
        """Add a question, embedded by this model, that led a caller to the tool's use."""
        key = key_of(tool, grant)
        with self._lock:
            if (key, model) in self._all.learned or self._has_room(key[len(tool) :]):
                self._all.add(key, model, vector)
                self._change.add(key, model, vector)
                self.version += 1

    def of(
        self, model: str, holder: str = EVERYTHING.holder, *, others: bool = False
    ) -> Mapping[str, LearnedVector]:
        """Returns the learned vectors of one model, by tool: the owner's and the holder's own.

        With ``others`` every other holder whose token nothing limits counts, too: as one
        question for each tool, however often it was used.
        """
        with self._lock:
            own = {key: each for (key, name), each in self._all.learned.items() if name == model}
        scoped = {key: own.pop(key) for key in [*own] if _BY in key}
        if not scoped:
            return own
        merged = UsageChange({(tool, model): each for tool, each in own.items()})
        for key, (count, total) in scoped.items():
            tool, _, by = key.rpartition(_BY)
            if by.removeprefix(_SHARED) == holder:
                merged.add(tool, model, total, count)
            elif others and by.startswith(_SHARED):
                merged.add(tool, model, total / np.float32(count), 1.0)
        return {tool: each for (tool, _), each in merged.learned.items()}

    def _has_room(self, holder: str) -> bool:
        """Whether a tool more fits; ``holder`` is the end of its key, empty for the owner."""
        keys = self._all.learned
        if holder and sum(key.endswith(holder) for key, _ in keys) >= MAX_OWN_TOOLS:
            return False
        return len(keys) < MAX_TOOLS

    def drain_changes(self) -> UsageChange:
        """Returns the changes since the last call, to be added to the file."""
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
        """Reapplies unsaved changes on top of the stored vectors."""
        with self._lock:
            self._all = UsageChange(dict(stored.learned))
            self._all.merge(self._change)
            self.version += 1

    def clear(self) -> None:
        """Forget everything; the next change clears the file."""
        with self._lock:
            self._all, self._change = UsageChange(), UsageChange(whole=True)
            self.version += 1
