"""Estimates the scores of candidates before their rows are read from the database.

The steps of a search say what the words and cosines of the candidates make of their scores. Only
how much of its name a query says is not known of a candidate: nothing, or all of it. So rows are
read only of those that may be the best.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Mask, Plan, Ranking, Rows
from toolscript.retrieval.candidate_selection import FoundWords, QueryWords
from toolscript.retrieval.capability import ANSWERED, DEDICATED
from toolscript.retrieval.lexical.bm25f import saturated
from toolscript.retrieval.pipeline import NAME_STEPS, SIGNAL_STEPS
from toolscript.retrieval.trace import IndexState, Trace

_MARGIN = 0.02
"""How far an estimate may be off."""
LEADING = 4
"""So many are kept of each signal and step: what is best scales the scores of the others."""


@dataclass(frozen=True, slots=True)
class SignalScores:
    """What the signals say of n candidates."""

    sums: Vectors
    """By query, the weighted sums of impacts: float32 [queries, n]."""
    semantic: Vectors | None
    """By query, the calibrated scores: float32 [queries, n], NaN where a candidate has no vector;
    None where no vectors are compared."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Which of n candidates have to be kept."""

    count: int
    """So many of the best of each mask."""
    masks: Sequence[Mask]
    """bool [n] each."""
    others: Mask | None = None
    """Those that run no commands, where a shell may do what is asked: bool [n]. Their scores decide
    whether it is raised."""


def likely_best(state: IndexState, plan: Plan, signals: SignalScores, kept: Kept) -> Rows:
    """Returns the places of the candidates that may be the best, ascending.

    Args:
        state: Has the statistics of all documents.
        plan: What is searched.
        signals: What is known of the candidates.
        kept: Which of them have to be kept.
    """
    least, most = _estimated(state, plan, signals)
    found: list[Rows] = []
    others = kept.others
    if others is not None and (least.scores * others).max() < ANSWERED + _MARGIN:
        found.append(np.flatnonzero((most.scores >= DEDICATED - _MARGIN) & others))
    rankings = [each.scores for ranking in least.rankings for each in ranking.values()]
    columns = [column.scores for column in (*least.columns, *most.columns)]
    scores = np.nan_to_num(np.concatenate([np.stack(rankings), *columns]))
    for mask in kept.masks:
        places = np.flatnonzero(mask)
        found += [places[rows] for rows in _most(scores[:, places], LEADING)]
        found += [
            places[rows]
            for each in (least, most)
            for rows in _most(each.scores[None, places], kept.count)
        ]
    return np.unique(np.concatenate(found))


def _estimated(state: IndexState, plan: Plan, signals: SignalScores) -> tuple[Trace, Trace]:
    """Returns the steps of a search where no name is covered, and where all are."""
    size = int(signals.sums.shape[1])
    rankings = [{"fuzzy": Ranking(saturated(each))} for each in signals.sums]
    if signals.semantic is not None:
        for ranking, scores in zip(rankings, signals.semantic, strict=True):
            ranking |= {"semantic": Ranking(scores)}
    least = Trace(
        state,
        plan.request,
        plan.profile.weights,
        plan.profile.word_match,
        plan.limit or size,
        plan.threshold,
        np.arange(size),
        plan.queries,
        tuple(rankings),
    )
    for step in SIGNAL_STEPS:
        least.apply(step)
    most = replace(least, columns=list(least.columns))
    for trace, covered in ((least, np.zeros), (most, np.ones)):
        words = {
            query.text: QueryWords(ranking["fuzzy"], covered(size, np.float32))
            for query, ranking in zip(plan.queries, rankings, strict=True)
        }
        trace.state = replace(state, lexical=FoundWords(state.lexical, np.empty(0, np.intp), words))
        for step in NAME_STEPS:
            trace.apply(step)
    return least, most


def _most(values: NDArray[np.floating[Any]], count: int) -> list[Rows]:
    """Returns the places of the greatest values of each row, those that are 0 included."""
    if values.shape[1] <= count:
        return [np.arange(values.shape[1])]
    order: NDArray[np.intp] = np.argpartition(-values, count, axis=1)[:, :count]
    return [order[row] for row in range(len(order))]
