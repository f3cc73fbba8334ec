"""How much of an attack is done."""

import random
from dataclasses import dataclass

SMOKE = 0.01
"""The share that the usual run does."""


@dataclass(frozen=True)
class Effort:
    """A factor on every count, and the seed of everything random."""

    scale: float = 1.0
    seed: int = 1

    def times(self, count: int, least: int = 1) -> int:
        """Returns ``count`` scaled, and at least so many."""
        return max(least, round(count * self.scale))

    @property
    def chance(self) -> random.Random:
        """A new source of randomness that repeats itself from run to run."""
        return random.Random(self.seed)  # noqa: S311 - moments and places, no secrets
