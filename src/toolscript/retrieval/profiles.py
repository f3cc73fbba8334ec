"""A door's way of asking: weights, limit, threshold. Data, not code."""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search uses where the request says nothing else."""

    name: str
    weights: Mapping[str, float]
    limit: int
    threshold: float
    parts: bool = True
    """Whether a question may want several things."""


def search_profile(alpha: float, limit: int, threshold: float) -> Profile:
    """The profile of ``toolscript search`` and ``GET /search``: α · semantic + (1 − α) · fuzzy."""
    weights = {"semantic": alpha, "fuzzy": 1.0 - alpha}
    return Profile("search", weights, limit, threshold)


def skills_profile(alpha: float, limit: int, threshold: float) -> Profile:
    """The same for skills. A question tells a situation, often in several sentences: it is one."""
    return replace(search_profile(alpha, limit, threshold), name="skills", parts=False)
