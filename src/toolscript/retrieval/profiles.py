"""Search profiles: each way of searching as a row of data (weights, limit, threshold).

``Vector.SearchSkills`` searches with `cosine_profile`. A hit's score is then the
raw cosine of the question with the best passage of a parent: not calibrated,
without words or names, not rounded. If no model answers, the search raises
`ModelError`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SearchProfile:
    """The values of a search that the request does not state."""

    name: str
    weights: Mapping[str, float]
    limit: int | None
    """The most hits to return; None returns all."""
    threshold: float
    subqueries: bool = True
    """Whether a question that has several wishes is split."""
    word_match: bool = True
    """Whether the weights follow how well the question's words match."""
    steps: str = "all"
    """``none`` if the formula is the score: no step after the fusion changes it."""
    raw_cosine: bool = False
    """Whether the score is the semantic signal's cosine as it is."""


SEARCH_TOOLS, TOOL_SEARCH, SEARCH_SKILLS = 10, 4, 5
"""Maximum number of hits of the tools of these names, which models are offered. They have no
threshold: a model is told the scores."""


def search_profile(alpha: float, limit: int, threshold: float, steps: str = "all") -> SearchProfile:
    """Returns the profile of ``toolscript search``: scores are α · semantic + (1 − α) · fuzzy.

    At most ``limit`` hits are returned, each with a score of at least ``threshold``; a request may
    have its own. The steps after the formula change the scores unless ``steps`` is ``none``.
    """
    return with_alpha(SearchProfile("search", {}, limit, threshold, steps=steps), alpha)


def with_alpha(profile: SearchProfile, alpha: float) -> SearchProfile:
    """Returns the profile with another weight of the semantic score."""
    return replace(profile, weights={"semantic": alpha, "fuzzy": 1.0 - alpha})


def skills_profile(alpha: float, limit: int, threshold: float, steps: str = "all") -> SearchProfile:
    """The profile of skills, which never splits a question: it describes one situation."""
    profile = search_profile(alpha, limit, threshold, steps)
    return replace(profile, name="skills", subqueries=False)


def cosine_profile() -> SearchProfile:
    """The profile of ``Vector.SearchSkills``: the raw cosine from 0.5, without a limit."""
    return SearchProfile("cosine", {"semantic": 1.0}, None, 0.5, subqueries=False, raw_cosine=True)
