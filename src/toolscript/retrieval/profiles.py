"""A door's way of asking: weights, limit, threshold. Data, not code."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search uses where the request says nothing else."""

    name: str
    weights: Mapping[str, float]
    limit: int
    threshold: float


def search_profile(alpha: float, limit: int, threshold: float) -> Profile:
    """The profile of ``toolscript search`` and ``GET /search``: α · semantic + (1 − α) · fuzzy."""
    weights = {"semantic": alpha, "fuzzy": 1.0 - alpha}
    return Profile("search", weights, limit, threshold)
