"""Is one engine better than another? A paired bootstrap over queries.

Both engines answered the same queries, so what is resampled is the difference
per query (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993; for
search: Sakai, "Evaluating evaluation metrics based on the bootstrap", 2006).
The interval is the middle 95 % of the resampled means. p is two-sided: twice the
share of resampled means on the other side of zero, the observed one counted in,
so never 0. For the macro average each dataset is resampled by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
SEED = 0
MACRO = "macro average"
_AT_ONCE = 200

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first engine's mean less the second's, with its uncertainty."""

    dataset: str
    difference: float
    low: float
    high: float
    p: float


def compare(differences: Mapping[str, Sequence[float]]) -> list[Comparison]:
    """One comparison per dataset, and one of the macro average where there are several."""
    random = np.random.default_rng(SEED)
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in differences.items()}
    means = {name: _resampled(values, random) for name, values in arrays.items()}
    found = [_comparison(name, float(arrays[name].mean()), means[name]) for name in arrays]
    if len(found) > 1:
        observed = float(np.mean([each.difference for each in found]))
        found.append(_comparison(MACRO, observed, np.mean(list(means.values()), axis=0)))
    return found


def _resampled(values: _Floats, random: np.random.Generator) -> _Floats:
    """The means of `RESAMPLES` draws of as many queries as there are, with replacement."""
    parts = [
        values[random.integers(0, values.size, size=(_AT_ONCE, values.size))].mean(axis=1)
        for _ in range(RESAMPLES // _AT_ONCE)
    ]
    return np.concatenate(parts)


def _comparison(name: str, observed: float, means: _Floats) -> Comparison:
    low, high = np.percentile(means, [2.5, 97.5])
    beyond = min(np.count_nonzero(means <= 0), np.count_nonzero(means >= 0))
    p = min(1.0, 2 * (beyond + 1) / (means.size + 1))
    return Comparison(name, observed, float(low), float(high), p)
