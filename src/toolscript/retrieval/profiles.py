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


WORDS_IN_SKILLS = 2 / 3
"""Words count this much of what they count for tools: a passage has many by chance."""


def skills_profile(alpha: float, limit: int, threshold: float) -> Profile:
    """The profile of a search for skills: 0.8 · semantic + 0.2 · fuzzy where α is 0.7."""
    words = (1.0 - alpha) * WORDS_IN_SKILLS
    return Profile("skills", {"semantic": 1.0 - words, "fuzzy": words}, limit, threshold)
