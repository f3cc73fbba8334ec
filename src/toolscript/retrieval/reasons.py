"""Why a document is a hit, in the words of the signal that contributed most."""

from collections.abc import Mapping
from dataclasses import dataclass

from toolscript.retrieval.capability import Capability

_PHRASES = {"semantic": "Semantic similarity", "fuzzy": "Fuzzy match"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about one hit."""

    contributions: Mapping[str, float]
    """What each signal added to the score, after weighting."""
    named: float = 0.0
    """How nearly the query spells the document's name; 0 when it does not."""
    inferred: Capability | None = None
    """The capability for which the score was raised."""
    label: str = ""
    """What the document is for."""


def reason(evidence: Evidence) -> str:
    """One line, such as ``Semantic similarity (file operations)``."""
    if evidence.named >= 1:
        return "Exact name"
    if evidence.named:
        return f"Fuzzy match (name, {evidence.named:.0%} alike)"
    if evidence.inferred:
        return f"Capability inference (shell → {evidence.inferred.short})"
    best = max(evidence.contributions, key=lambda name: evidence.contributions[name], default="")
    phrase = _PHRASES.get(best, best.capitalize() or "No signal answered")
    return f"{phrase} ({evidence.label})" if evidence.label else phrase
