"""Relevance feedback: moves a tool's vector towards the questions that led to its use (Rocchio).

    v' = (1 − w) · v + w · m, at length 1      w = `MAX_SHIFT` · n / (n + `HALF_SHIFT`)

with v the tool's vector and m the mean of the n questions that led to its use.
Questions are nearer to each other than to any description, so the cosines with
v' are higher for every question, and tools that were used would push aside those
that were not. Therefore all of them are lowered alike, by as much as the best of
them rose: what was learned decides which of the tools with a history comes first,
not how near the nearest of them is. Only a question that was nearly asked before,
with a calibrated score from `REPEATED` to 1, keeps part of the rise, up to all of it.

What counts is what the owner and the caller have used. What others have used moves no
tool by more than `MAX_BY_OTHERS` from there, whatever they ask and however often.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.graph.usage import LearnedVector, Usage
from toolscript.retrieval.base import Mask
from toolscript.types import EVERYTHING, Document

MAX_SHIFT, HALF_SHIFT = 0.6, 3.0
REPEATED = 0.9
MAX_BY_OTHERS = 0.02
"""Cosine."""
_REMEMBERED = 8
"""For so many callers the vectors are kept."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The vectors of the tools with a history."""

    rows: NDArray[np.intp]
    adjusted: Vectors
    """v': float32 [rows, dim], unit rows."""
    asked: Vectors
    """m at length 1: float32 [rows, dim]."""

    def within(self, visible: Mask | None) -> "_Known":
        """Only those of the ``visible`` rows."""
        if visible is None or visible[self.rows].all():
            return self
        kept = visible[self.rows]
        return _Known(self.rows[kept], self.adjusted[kept], self.asked[kept])


@dataclass(slots=True)
class RelevanceFeedback:
    """One index's tools with the questions that led to their use. Any thread may ask."""

    usage: Usage
    model: str
    documents: Sequence[Document]
    vectors: Vectors
    """float32 [n, dim], unit rows: one for each document."""
    curve: Callable[[Vectors], Vectors]
    _known: dict[tuple[int, str], tuple[_Known, _Known | None]] = field(
        default_factory=dict[tuple[int, str], tuple[_Known, _Known | None]], init=False
    )
    """By the usage's version and the caller: its own and the owner's, and also those of others."""

    def adjusted(
        self,
        cosines: Vectors,
        question: Vectors,
        visible: Mask | None = None,
        holder: str = EVERYTHING.holder,
    ) -> Vectors:
        """The cosines moved by use: float32 [n]; the same array where nothing was learned.

        Only the tools of ``visible`` rows, by default of all, count as the best of them.
        """
        own, every = self._current(holder)
        moved = self._moved(own.within(visible), cosines, question)
        if every is None:
            return moved
        found = self._moved(every.within(visible), cosines, question)
        return np.clip(found, moved - MAX_BY_OTHERS, moved + MAX_BY_OTHERS)

    def _moved(self, known: _Known, cosines: Vectors, question: Vectors) -> Vectors:
        if not known.rows.size:
            return cosines
        before = cosines[known.rows]
        after = known.adjusted @ question
        repeated = float(self.curve((known.asked @ question).max(keepdims=True))[0])
        kept = min(1.0, max(0.0, (repeated - REPEATED) / (1.0 - REPEATED)))
        rise = max(0.0, float(after.max() - before.max())) * kept
        found = cosines.copy()
        found[known.rows] = after - (after.max() - before.max()) + rise
        return np.clip(found, -1.0, 1.0)

    def _current(self, holder: str) -> tuple[_Known, _Known | None]:
        key = self.usage.version, holder
        known = self._known.get(key)
        if known is None:
            own = self.usage.of(self.model, holder)
            every = self.usage.of(self.model, holder, others=True)
            same = sum(n for n, _ in own.values()) == sum(n for n, _ in every.values())
            known = self._read(own), None if same else self._read(every)
            kept = [each for each in self._known.items() if each[0][0] == key[0]]
            self._known = dict([*kept[1 - _REMEMBERED :], (key, known)])
        return known

    def _read(self, learned: Mapping[str, LearnedVector]) -> _Known:
        dim = self.vectors.shape[1]
        found = [
            (row, *learned[document.id])
            for row, document in enumerate(self.documents)
            if document.id in learned and learned[document.id][1].shape == (dim,)
        ]
        rows = np.array([row for row, _, _ in found], dtype=np.intp)
        if not found:
            none = np.zeros((0, dim), dtype=np.float32)
            return _Known(rows, none, none)
        asked = unit_rows(np.stack([total for _, _, total in found]))
        counts = np.array([count for _, count, _ in found])
        weight = (MAX_SHIFT * counts / (counts + HALF_SHIFT))[:, None]
        adjusted = unit_rows((1.0 - weight) * self.vectors[rows] + weight * asked)
        return _Known(rows, adjusted, asked)
