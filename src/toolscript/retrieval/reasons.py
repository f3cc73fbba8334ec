"""Why a document is a hit: in one line, and in full."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolscript.retrieval.capability import Capability
from toolscript.retrieval.fusion import DECIMALS, contributions, fuse, shares
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.pipeline import Scored
from toolscript.text import printable
from toolscript.types import Explanation, Share, Step

_PHRASES = {"semantic": "Semantic similarity", "fuzzy": "Fuzzy match"}
_PART_CHARS = 40


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the one line is made from."""

    contributions: Mapping[str, float]
    """What each signal added to the score, after weighting."""
    raised: float = 0.0
    """What the name's words in the query added."""
    named: NameMatch | None = None
    """How the query spells the document's name."""
    inferred: Capability | None = None
    """The capability for which the score was raised."""
    label: str = ""
    """What the question asks for and the document is for."""
    part: str = ""
    """The part of the question that speaks for the document; empty for the whole of it."""
    needed: str = ""
    """The tool that needs it, where that is why it is there,"""
    goes_with: str = ""
    """and the last tool that was used, where what goes with that speaks most for it."""


def reason(evidence: Evidence) -> str:
    """One line, such as ``Semantic similarity (file operations)``."""
    if evidence.needed:
        return f"Needed by {evidence.needed}"
    if evidence.named:
        return (
            "Exact name"
            if evidence.named.is_exact
            else f"Fuzzy match (name, {evidence.named.alike:.0%} alike)"
        )
    if evidence.inferred:
        return f"Capability inference (shell → {evidence.inferred.short})"
    if evidence.goes_with:
        return f"Goes with {evidence.goes_with}"
    best = _strongest(evidence)
    phrase = _PHRASES.get(best, best.capitalize() or "No signal answered")
    if best == "fuzzy" and evidence.raised > evidence.contributions[best]:
        phrase += " + name boost"
    label = f" ({evidence.label})" if evidence.label else ""
    part = f" for “{printable(evidence.part, _PART_CHARS)}”" if evidence.part else ""
    return f"{phrase}{label}{part}"


def _strongest(evidence: Evidence) -> str:
    """The signal that added most; what the name's words added is the fuzzy signal's."""
    added = dict(evidence.contributions)
    if evidence.raised and "fuzzy" in added:
        added["fuzzy"] += evidence.raised
    return max(added, key=lambda name: added[name], default="")


def evidence(scored: Scored, weights: Mapping[str, float], row: int) -> Evidence:
    """What the one line of a document's reason is made from."""
    reading = scored.reading(row)
    return Evidence(
        contributions=contributions(reading.rankings, weights, row),
        raised=float(reading.raised[row]),
        named=scored.named.get(row),
        inferred=scored.boosted.inferred.get(row),
        label=scored.state.capabilities.label(row, reading.query),
        part="" if reading is scored.whole else reading.query.text,
        needed=_needed_by(scored, row),
        goes_with=_goes_with(scored, row),
    )


def _needed_by(scored: Scored, row: int) -> str:
    need = scored.placed.needs.get(row) if scored.placed else None
    return scored.state.corpus.documents[need.by].id if need else ""


def _goes_with(scored: Scored, row: int) -> str:
    """The last tool used, where the graph gives more to the score than the question."""
    placed = scored.placed
    if placed is None or placed.graph is None or not placed.context:
        return ""
    given = (1.0 - placed.alpha) * float(placed.graph[row])
    return placed.context[-1] if given > placed.alpha * float(placed.own[row]) else ""


def explain(scored: Scored, weights: Mapping[str, float], row: int) -> Explanation:
    """How a document's score came about, every step of it."""
    whole = scored.whole
    return Explanation(
        fused=_round(fuse(whole.rankings, weights)[row]),
        shares=tuple(
            Share(
                signal=name,
                score=_round(whole.rankings[name].scores[row]),
                weight=round(weight, DECIMALS),
                evidence=scored.state.indexes[name].evidence(whole.query, row),
            )
            for name, weight in shares(whole.rankings, weights, row).items()
        ),
        steps=tuple(_steps(scored, row)),
    )


def _steps(scored: Scored, row: int) -> list[Step]:
    whole, steps = scored.whole, list[Step]()
    if whole.sense < 1:
        told = "most of the query's words mean nothing here"
        steps.append(Step(name="sense", score=_round(whole.fused[row]), evidence=told))
    if whole.raised[row] > 0:
        said = f"the query says {whole.said[row]:.0%} of its name"
        steps.append(Step(name="name boost", score=_round(whole.scores[row]), evidence=said))
    if scored.part_of is not None:
        part = scored.parts[int(scored.part_of[row])]
        text = f"“{printable(part.query.text, 80)}” scores {part.scores[row]:.2f}"
        steps.append(Step(name="part", score=_round(scored.joined[row]), evidence=text))
    if row in scored.boosted.inferred:
        label = f"a shell can do {scored.boosted.inferred[row].name}, and nothing else here does"
        score = _round(scored.boosted.scores[row])
        steps.append(Step(name="capability", score=score, evidence=label))
    if row in scored.named:
        label = f"its name is spelled, {scored.named[row].alike:.0%} alike"
        steps.append(Step(name="name", score=float(scored.own[row]), evidence=label))
    return [*steps, *_placing(scored, row)]


def _placing(scored: Scored, row: int) -> list[Step]:
    """What the second stage made of the score."""
    placed, score = scored.placed, float(scored.scores[row])
    if placed is None:
        return []
    if row in placed.needs:
        need = placed.needs[row]
        told = f"needed by {scored.state.corpus.documents[need.by].id}: {need.why}"
        return [Step(name="needed", score=score, evidence=told)]
    if placed.graph is None:
        return []
    said, alpha = float(placed.graph[row]), placed.alpha
    told = f"the graph says {said:.2f}, and weighs {1 - alpha:.1f}"
    return [Step(name="context", score=score, evidence=told)]


def _round(score: np.floating) -> float:
    return round(float(score), DECIMALS)
