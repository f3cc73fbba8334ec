"""Orders tools that share a name across servers, and tells which of them mean the same (twins)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

from toolscript.retrieval.trace import Trace
from toolscript.text.words import compact
from toolscript.types import is_older

NEAR_TIE = 0.02
"""Scores that differ by no more nearly tie."""
MAX_BELOW = 100
"""The number of rows below the hits that may be older tools."""
TWINS = 0.85
"""Minimum cosine of the vectors of twins, which differ by their servers' names."""
TWINS_GAP = 0.1
"""Scores of twins that differ by no more do so by their servers' names alone."""
MAX_TWINS = 3
"""The number of twins that are named."""

AcceptedAt: TypeAlias = Callable[[str], int]
"""Returns the Unix time at which the tool of an id was first accepted; 0 if none is known."""


def order_namesakes(rows: Sequence[int], trace: Trace, accepted_at: AcceptedAt) -> list[int]:
    """Returns the rows, of which tools of the same name may have changed places.

    A tool that the caller has used goes before its twins whose scores are better by at most
    `TWINS_GAP`. Of others, an older one goes before younger ones whose scores are better by at most
    `NEAR_TIE`. 1, which only exact names have, is never tied with less. No other row moves.

    Args:
        rows: Rows of a search, the best first.
        trace: The search.
        accepted_at: How old tools are.
    """
    documents, ordered = trace.state.corpus.documents, list(rows)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[compact(documents[row].name)].append(place)
    alike = [each for each in places.values() if len(each) > 1]
    semantic = trace.state.semantic
    used = semantic.rows_used(trace.query.holder) if semantic and alike else frozenset[int]()

    def passes(row: int, other: int) -> bool:
        if (row in used) != (other in used) and _are_twins(trace, row, other):
            return row in used and _is_tied(trace, row, other, TWINS_GAP)
        times = accepted_at(documents[row].id), accepted_at(documents[other].id)
        return _is_tied(trace, row, other, NEAR_TIE) and is_older(*times)

    for members in alike:
        done: list[int] = []
        for row in (rows[place] for place in members):
            place = len(done)
            while place and passes(row, done[place - 1]):
                place -= 1
            done.insert(place, row)
        for place, row in zip(members, done, strict=True):
            ordered[place] = row
    return ordered


def servers_of_twins(trace: Trace, row: int) -> tuple[str, ...]:
    """Returns the servers, at most `MAX_TWINS`, that have a tool of the same name and meaning.

    Only tools that the caller may see and that answer about as well: a copy that was lowered does
    not.
    """
    documents, scores = trace.state.corpus.documents, trace.scores
    tool = documents[row]
    if tool.parent_id:
        return ()
    name, least = compact(tool.name), max(trace.threshold, float(scores[row]) - TWINS_GAP)
    servers = [
        documents[other].server
        for other in trace.state.names.rows_of(name, trace.visible)
        if scores[other] >= least
        and documents[other].server != tool.server
        and compact(documents[other].name) == name
        and _are_twins(trace, row, other)
    ]
    return tuple(dict.fromkeys(servers))[:MAX_TWINS]


def _are_twins(trace: Trace, row: int, other: int) -> bool:
    """Returns whether two tools of the same name have the same meaning."""
    documents, semantic = trace.state.corpus.documents, trace.state.semantic
    if documents[row].description == documents[other].description:
        return True
    vectors = semantic.vectors if semantic else None
    return vectors is not None and float(vectors[row] @ vectors[other]) >= TWINS


def _is_tied(trace: Trace, row: int, other: int, gap: float) -> bool:
    """Returns whether a row's score is lower than another's by at most ``gap``."""
    score, better = float(trace.scores[row]), float(trace.scores[other])
    return better - score <= gap and (better >= 1) == (score >= 1)
