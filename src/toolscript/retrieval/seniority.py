"""Puts the tool that was accepted longer before its copies if their scores nearly tie."""

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

AcceptedAt: TypeAlias = Callable[[str], int]
"""Returns the Unix time at which the tool of an id was first accepted; 0 if none is known."""


def older_first(rows: Sequence[int], trace: Trace, accepted_at: AcceptedAt) -> list[int]:
    """Returns the rows, of which tools of the same name may have changed places.

    An older one goes before younger ones whose scores are better by at most `NEAR_TIE`; 1, which
    only exact names have, is never nearly tied with less. No other row moves.

    Args:
        rows: Rows of a search, the best first.
        trace: The search.
        accepted_at: How old tools are.
    """
    documents, ordered = trace.state.corpus.documents, list(rows)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[compact(documents[row].name)].append(place)
    for alike in places.values():
        if len(alike) > 1:
            members = [(float(trace.scores[row]), row) for row in (rows[each] for each in alike)]
            times = {row: accepted_at(documents[row].id) for _, row in members}
            for place, row in zip(alike, _sort(members, times), strict=True):
                ordered[place] = row
    return ordered


def _sort(members: Sequence[tuple[float, int]], times: dict[int, int]) -> list[int]:
    """Returns the rows of one name, of which each has moved before those that it may pass."""
    done: list[tuple[float, int]] = []
    for score, row in members:
        place = len(done)
        while place and _passes(score, times[row], done[place - 1], times):
            place -= 1
        done.insert(place, (score, row))
    return [row for _, row in done]


def _passes(score: float, time: int, other: tuple[float, int], times: dict[int, int]) -> bool:
    is_tied = other[0] - score <= NEAR_TIE and (other[0] >= 1) == (score >= 1)
    return is_tied and is_older(time, times[other[1]])
