"""Estimates the scores of candidates before their rows are read from the database.

The words of a candidate are known, its cosines nearly; how much of its name a query says is not.
The first steps of a search therefore score each candidate twice: as if its name were not said at
all, and as if all of it were and its cosines were as great as they may be. Rows are then read only
of the candidates that are among the best of either.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.postgres.candidate_selection import FoundWords, QueryWords
from toolscript.postgres.top_k import greatest_of_rows
from toolscript.retrieval.base import Mask, Plan, Ranking, Rows
from toolscript.retrieval.capability import ANSWERED, DEDICATED
from toolscript.retrieval.pipeline import NAME_STEPS, SIGNAL_STEPS
from toolscript.retrieval.trace import IndexState, Trace

_MARGIN = 0.05
"""How far an estimate may be off."""
ALIKE = 200
"""So many are kept of those that are named alike: more than a search may show."""
DECIDING = 16
"""So many are kept that decide whether a shell is raised."""
LEADING = 4
"""So many are kept of each signal and step: what is best scales the scores of the others."""


@dataclass(frozen=True, slots=True)
class SignalScores:
    """What the signals say of n candidates."""

    sums: Vectors
    """By query, the weighted sums of impacts: float32 [queries, n]."""
    semantic: Sequence[Vectors]
    """By query, the calibrated scores, about so and at most: float32 [queries, n] each, NaN where
    a candidate has no vector. Empty if no vectors are compared."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Which of n candidates have to be kept."""

    count: int
    """So many of the best of each mask."""
    masks: Sequence[Mask]
    """bool [n] each."""
    alike: Sequence[Mask] = ()
    """Those whose names match a query equally well, many of each: bool [n] each."""
    others: Mask | None = None
    """Those that run no commands, where a shell may do what is asked: bool [n]."""
    dedicated: Sequence[Mask] = ()
    """For each thing that is asked of a shell, those of the others that do it: bool [n]. Unless one
    of the others answers well, some are kept that decide whether the shell is raised."""


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
    estimates = np.stack([least.scores, most.scores])
    if kept.others is not None and kept.others.any():
        answered = estimates[:, kept.others].max(axis=1).min()
        if answered < ANSWERED + _MARGIN:
            may_decide = estimates.max(axis=0) >= DEDICATED - _MARGIN
            for mask in kept.dedicated:
                found += _greatest_of(estimates, mask & may_decide, DECIDING)
    rankings = [each.scores for ranking in least.rankings for each in ranking.values()]
    columns = [column.scores for column in (*least.columns, *most.columns)]
    scores = np.nan_to_num(np.concatenate([np.stack(rankings), *columns]))
    for mask in kept.masks:
        found += _greatest_of(scores, mask, LEADING)
        found += _greatest_of(estimates, mask, kept.count)
    for mask in kept.alike:
        found += _greatest_of(estimates, mask, ALIKE)
    return np.unique(np.concatenate(found))


def _greatest_of(values: Vectors, mask: Mask, limit: int) -> list[Rows]:
    """Returns where the greatest values of each row are, of those that count."""
    places = np.flatnonzero(mask)
    return [places[rows] for rows in greatest_of_rows(values[:, places], limit)]


def _estimated(state: IndexState, plan: Plan, signals: SignalScores) -> tuple[Trace, Trace]:
    """Returns the steps of a search where no name is covered, and where all are."""
    size = int(signals.sums.shape[1])
    unnamed = [
        QueryWords(sums, float(sums.max(initial=0.0)), np.zeros(size, np.float32))
        for sums in signals.sums
    ]
    least = _signalled(state, plan, unnamed, signals.semantic[0] if signals.semantic else None)
    most = _signalled(state, plan, unnamed, signals.semantic[1] if signals.semantic else None)
    for trace, covered in ((least, np.zeros), (most, np.ones)):
        words = {
            query.text: replace(each, coverage=covered(size, np.float32))
            for query, each in zip(plan.queries, unnamed, strict=True)
        }
        trace.state = replace(state, lexical=FoundWords(state.lexical, np.empty(0, np.intp), words))
        for step in NAME_STEPS:
            trace.apply(step)
    return least, most


def _signalled(
    state: IndexState, plan: Plan, words: Sequence[QueryWords], semantic: Vectors | None
) -> Trace:
    """Returns the steps of a search before any that asks for names."""
    rankings = [{"fuzzy": each.ranking} for each in words]
    if semantic is not None:
        for ranking, scores in zip(rankings, semantic, strict=True):
            ranking |= {"semantic": Ranking(scores)}
    size = words[0].coverage.size
    trace = Trace(
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
        trace.apply(step)
    return trace
