"""Cosines of different models onto one scale.

Raw cosines live on a scale of the model's own: two unrelated texts get about
0.1 from one model and 0.6 from another. A piecewise linear curve through three
points puts them on [0, 1], so that one threshold serves every model: what
unrelated texts get becomes 0, what a good answer gets becomes `GOOD`, and 1
stays 1. Nothing above the floor is clipped, so the order is kept.
"""

from dataclasses import dataclass

import numpy as np

from toolscript.embedding.base import Vectors

GOOD = 0.8


@dataclass(frozen=True, slots=True)
class Curve:
    """Cosine ``floor`` becomes 0, cosine ``good`` becomes `GOOD`, cosine 1 becomes 1."""

    floor: float
    good: float

    def __call__(self, cosines: Vectors) -> Vectors:
        """Calibrated scores float32 [n] in [0, 1]; NaN stays NaN."""
        scaled = np.interp(cosines, (self.floor, self.good, 1.0), (0.0, GOOD, 1.0))
        return scaled.astype(np.float32)


CURVES = {
    "all-MiniLM-L6-v2": Curve(0.05, 0.5),
}
DEFAULT = Curve(0.0, GOOD)


def curve_of(model: str) -> Curve:
    """The curve measured for a model; the raw cosine for one that was not measured."""
    return CURVES.get(model, DEFAULT)
