"""Relevance feedback: moves a tool's vector towards the questions that led to its use (Rocchio).

    v' = (1 − w) · v + w · m, at length 1      w = `MAX_SHIFT` · n / (n + `HALF_SHIFT`)

with v the tool's vector and m the mean of the n questions that led to its use.
Questions are nearer to each other than to any description, so the cosines with
v' are higher for every question, and tools that were used would push aside those
that were not. Therefore all of them are lowered alike, by as much as the best of
them rose: uses decide which of the tools with a history comes first,
not how near the nearest of them is. Only a question that was nearly asked before,
with a calibrated score from `REPEATED` to 1, keeps part of the rise, up to all of it.

The uses of the owner and the caller count. Those of others move no
tool by more than `MAX_BY_OTHERS` from there, whatever they ask and however often.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.graph.usage import LearnedVector, Usage
from toolscript.retrieval.base import Mask, Rows
from toolscript.types import EVERYTHING

MAX_SHIFT, HALF_SHIFT = 0.6, 3.0
REPEATED = 0.9
MAX_BY_OTHERS = 0.02
"""Cosine."""
_CALLERS = 8
"""The number of callers whose vectors are kept."""


@dataclass(frozen=True, slots=True)
class _History:
    """The vectors of the tools that have been used."""

    rows: Rows
    moved: Vectors
    """v': float32 [rows, dim], unit rows."""
    questions: Vectors
    """m at length 1: float32 [rows, dim]."""

    def within(self, visible: Mask | None) -> "_History":
        """Returns the history of the ``visible`` rows only."""
        if visible is None or visible[self.rows].all():
            return self
        kept = visible[self.rows]
        return _History(self.rows[kept], self.moved[kept], self.questions[kept])


@dataclass(slots=True)
class RelevanceFeedback:
    """The tools of one index with the questions that led to their use. Any thread may ask."""

    usage: Usage
    model: str
    ids: Sequence[str]
    """The tools' ids."""
    vectors: Vectors
    """The tools' vectors: float32 [n, dim], unit rows."""
    curve: Callable[[Vectors], Vectors]
    _histories: dict[tuple[int, str], tuple[_History, _History | None]] = field(
        default_factory=dict[tuple[int, str], tuple[_History, _History | None]], init=False
    )
    """Two histories by the usage's version and the caller: its own with the owner's, and that of
    everybody; None if that is the same."""

    def adjust(
        self,
        cosines: Vectors,
        question: Vectors,
        visible: Mask | None = None,
        holder: str = EVERYTHING.holder,
    ) -> Vectors:
        """Returns the cosines moved by use: float32 [n]; the same array if nothing was learned.

        Only the tools of ``visible`` rows, by default of all, count as the best of them.
        """
        own, every = self._of_caller(holder)
        by_caller = self._move(own.within(visible), cosines, question)
        if every is None:
            return by_caller
        by_all = self._move(every.within(visible), cosines, question)
        return np.clip(by_all, by_caller - MAX_BY_OTHERS, by_caller + MAX_BY_OTHERS)

    def places_used(self, holder: str) -> Rows:
        """Returns the places of the tools that the owner or this caller has used."""
        return self._of_caller(holder)[0].rows

    def _move(self, history: _History, cosines: Vectors, question: Vectors) -> Vectors:
        rows = history.rows
        if not rows.size:
            return cosines
        after = history.moved @ question
        repeated = float(self.curve((history.questions @ question).max(keepdims=True))[0])
        kept = min(1.0, max(0.0, (repeated - REPEATED) / (1.0 - REPEATED)))
        rise = float(after.max() - cosines[rows].max())
        moved = cosines.copy()
        moved[rows] = after - (after.max() - cosines[rows].max()) + max(0.0, rise) * kept
        return np.clip(moved, -1.0, 1.0)

    def _of_caller(self, holder: str) -> tuple[_History, _History | None]:
        key = self.usage.version, holder
        pair = self._histories.get(key)
        if pair is None:
            own = self.usage.of(self.model, holder)
            every = self.usage.of(self.model, holder, others=True)
            is_same = sum(n for n, _ in own.values()) == sum(n for n, _ in every.values())
            pair = self._read(own), None if is_same else self._read(every)
            current = [item for item in self._histories.items() if item[0][0] == key[0]]
            self._histories = dict([*current[1 - _CALLERS :], (key, pair)])
        return pair

    def _read(self, learned: Mapping[str, LearnedVector]) -> _History:
        dim = self.vectors.shape[1]
        used = [
            (row, *learned[key])
            for row, key in enumerate(self.ids)
            if key in learned and learned[key][1].shape == (dim,)
        ]
        rows = np.array([row for row, _, _ in used], dtype=np.intp)
        if not used:
            none = np.zeros((0, dim), dtype=np.float32)
            return _History(rows, none, none)
        questions = unit_rows(np.stack([total for _, _, total in used]))
        counts = np.array([count for _, count, _ in used])
        weight = (MAX_SHIFT * counts / (counts + HALF_SHIFT))[:, None]
        moved = unit_rows((1.0 - weight) * self.vectors[rows] + weight * questions)
        return _History(rows, moved, questions)
