"""Draws the bar beside a result: the signals and steps that make up its confidence."""

from typing import NamedTuple

from toolscript.surfaces.http.search_answers import SkillHit, ToolHit
from toolscript.types import Explanation


class BarSegment(NamedTuple):
    """A part of the bar, in percent of the whole width."""

    kind: str
    """``semantic``, ``fuzzy``, ``step``, or ``taken`` for a loss in later steps."""
    start: float
    width: float


class Bar(NamedTuple):
    """The segments, and the same in words for those who cannot see them."""

    segments: tuple[BarSegment, ...]
    label: str


def bar(hit: ToolHit | SkillHit) -> Bar:
    """Returns the bar of a result; of one without an explanation its confidence alone."""
    explanation = hit.explanation
    if not isinstance(explanation, Explanation):
        whole = BarSegment("step", 0.0, round(100 * hit.confidence, 1))
        return Bar((whole,), f"confidence {hit.confidence:.2f}")
    parts = [(share.signal, share.score * share.weight) for share in explanation.shares]
    words = [f"{signal} {value:.2f}" for signal, value in parts]
    score, added = explanation.fused, 0.0
    for step in explanation.steps:
        change = step.score - score
        if round(change, 2):
            words.append(f"{step.name} {change:+.2f}")
        added += max(0.0, change)
        score = step.score
    if added:
        parts.append(("step", added))
    total = sum(value for _, value in parts)
    segments: list[BarSegment] = []
    start = 0.0
    for kind, value in parts:
        width = min(value, max(0.0, hit.confidence - start))
        segments.append(_segment(kind, start, width))
        start += width
    if total > hit.confidence:
        segments.append(_segment("taken", hit.confidence, min(1.0, total) - hit.confidence))
    label = f"confidence {hit.confidence:.2f}: {', '.join(words)}"
    return Bar(tuple(each for each in segments if each.width > 0), label)


def _segment(kind: str, start: float, width: float) -> BarSegment:
    return BarSegment(kind, round(100 * start, 1), round(100 * width, 1))
