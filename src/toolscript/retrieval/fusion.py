"""Fuses the rankings of the signals into one score: their weighted mean."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Ranking

DECIMALS = 6
"""Scores are compared and shown to this many decimals, so that 0.35 is not below 0.35."""

Scores: TypeAlias = NDArray[np.float64]


def fuse(rankings: Mapping[str, Ranking], weights: Mapping[str, float]) -> Vectors:
    """Σ w·s / Σ w per document, float32 [n], over the signals that scored it; 0 if none did.

    With every signal present and weights that sum to 1 this is
    α · semantic + (1 − α) · fuzzy. A missing signal's weight is renormalised
    away, so that a threshold keeps its meaning. If all that answered weigh
    nothing (α = 1 with no model), they count alike instead of not at all.
    """
    names = list(rankings)
    scores = np.stack([rankings[name].scores for name in names])
    weight = np.array([weights.get(name, 0.0) for name in names], dtype=np.float32)[:, None]
    answered = ~np.isnan(scores)
    if answered.all() and weight.sum() > 0:  # the same in a tenth of the time
        return ((weight * scores).sum(axis=0) / weight.sum()).astype(np.float32)
    mass = np.where(answered, weight, 0.0)
    mass = np.where(mass.sum(axis=0) > 0, mass, answered.astype(np.float32))
    total = np.maximum(mass.sum(axis=0), 1e-12)
    return ((mass * np.where(answered, scores, 0.0)).sum(axis=0) / total).astype(np.float32)


def round_scores(scores: Vectors | Scores) -> Scores:
    """Scores to `DECIMALS`, below 1.0: that is for exact names, so that nothing ties with them."""
    return np.clip(np.round(scores.astype(np.float64), DECIMALS), 0.0, 1.0 - 10.0**-DECIMALS)


def shares(
    rankings: Mapping[str, Ranking], weights: Mapping[str, float], row: int
) -> dict[str, float]:
    """The weights with which one document's score was fused: they sum to 1."""
    answered = [name for name, ranking in rankings.items() if not np.isnan(ranking.scores[row])]
    given = {name: weights.get(name, 0.0) for name in answered}
    total = sum(given.values())
    if total <= 0:
        return dict.fromkeys(answered, 1 / max(1, len(answered)))
    return {name: weight / total for name, weight in given.items()}
