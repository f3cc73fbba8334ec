"""Copies of tools on several servers: their order, the servers that have one, and imitators.

Tools of the same name and meaning are twins: they differ by their servers' names. The neighbour of
a tool is the nearest of all other tools by meaning. Most tools have theirs within their own server,
which is about one subject, or all within one other server about the same subject. A server is taken
for an imitator if neither holds: most of its tools have neighbours elsewhere, in many servers. That
is true of copies, of descriptions written to be found for everything, and of a server that offers
the tools of others once more, whose originals then come first.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Mask
from toolscript.retrieval.fusion import DECIMALS, round_scores
from toolscript.retrieval.trace import Column, Evidence, Trace
from toolscript.text.words import compact
from toolscript.types import WEAK_CONFIDENCE

NEAR_TIE = 0.02
"""Scores that differ by no more nearly tie."""
MAX_BELOW = 100
"""The number of rows below the hits that may be older tools."""
SAME_AGE_S = 600
"""Tools that were accepted within so many seconds are equally old: servers of one first start."""
TWINS = 0.85
"""Minimum cosine of the vectors of twins."""
TWINS_GAP = 0.1
"""Scores of twins that differ by no more do so by their servers' names alone."""
MAX_TWINS = 3
"""The number of twins that are named."""
IMITATION = 0.5
"""The share of its score that a tool keeps whose server imitates others."""
BEFORE_IMITATIONS = 3
"""Number of other servers' tools that come before it."""
MIN_TOOLS = 8
"""Minimum number of tools of an imitator: those of fewer may all be elsewhere."""
MIN_SHARE = 0.55
"""Minimum share of an imitator's tools whose neighbours are elsewhere."""
MIN_SERVERS = 5.0
"""Minimum number of servers that have these neighbours: the inverse of Simpson's index."""
MAX_IMITATORS, MAX_IMITATOR_SHARE = 3, 0.1
"""Maximum number of imitators, and their maximum share: if more servers look like imitators, the
servers of this catalogue are not about one subject each, and there is none."""
MAX_TOOLS = 3_000
"""Maximum number of tools that are compared with each other, which takes time by its square."""
MAX_CALLERS = 8
"""Maximum number of callers with different tools whose imitations are kept."""
_PART = 512

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
        return _is_tied(trace, row, other, NEAR_TIE) and _is_older(*times)

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
    """Returns the servers, at most `MAX_TWINS`, that have a twin of a tool.

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


def lower_imitations(trace: Trace) -> Column | None:
    """Lower the tools of a server that imitates others, below the best three of other servers.

    Those have to fit at least weakly. A question that is a name alone means that tool.
    """
    if len(trace.query.original.split()) == 1 or (imitations := _imitations(trace)) is None:
        return None
    scores = trace.scores
    is_other = ~imitations if trace.visible is None else ~imitations & trace.visible
    best = np.sort(scores[is_other])[-BEFORE_IMITATIONS:]
    bound = min(best[best >= WEAK_CONFIDENCE], default=1.0) - 10.0**-DECIMALS
    lowered = np.where(imitations, np.minimum(round_scores(IMITATION * scores), bound), scores)
    text = "its server has tools like those of many others"
    evidence = Evidence("imitation", text, remark="resembles another server's tool")
    return Column(lowered[None], lambda row: evidence if lowered[row] < scores[row] else None)


def find_imitations(servers: Sequence[str], vectors: Vectors) -> Mask | None:
    """Returns which tools are imitations: bool [n]; None if none is, or if there are too many.

    Args:
        servers: The server of each tool.
        vectors: float32 [n, dim], unit rows.
    """
    names, server = np.unique(np.array(servers), return_inverse=True)
    counts = np.bincount(server)
    if len(vectors) > MAX_TOOLS or len(names) <= MIN_SERVERS or counts.max() < MIN_TOOLS:
        return None
    neighbour = _find_neighbours(server, vectors)
    large = np.flatnonzero(counts >= MIN_TOOLS)
    imitators = [each for each in large.tolist() if _imitates(each, neighbour[server == each])]
    if not imitators or len(imitators) > max(MAX_IMITATORS, MAX_IMITATOR_SHARE * large.size):
        return None
    return np.isin(server, imitators)


def _imitations(trace: Trace) -> Mask | None:
    """Returns the tools whose servers imitate others that the caller sees; None if there are none.

    Nothing is known of them while tools are not embedded yet.
    """
    corpus, semantic, found = trace.state.corpus, trace.state.semantic, trace.state.imitations
    vectors, visible = semantic.row_vectors if semantic else None, trace.visible
    if vectors is None or len(vectors) < len(corpus) or corpus.parent_rows is not None:
        return None
    key = b"" if visible is None else visible.tobytes()
    if key not in found:
        rows = np.arange(len(corpus)) if visible is None else np.flatnonzero(visible)
        servers = [corpus.documents[row].server for row in rows.tolist()]
        seen = find_imitations(servers, vectors[rows])
        if len(found) >= MAX_CALLERS:
            found.clear()
        found[key] = None if seen is None else np.isin(np.arange(len(corpus)), rows[seen])
    return found[key]


def _imitates(server: int, neighbours: NDArray[np.intp]) -> bool:
    """Returns whether a server imitates others, given the servers of its tools' neighbours."""
    others = neighbours[neighbours != server]
    if others.size < MIN_SHARE * neighbours.size:
        return False
    shares = np.bincount(others) / others.size
    return bool(1 / (shares**2).sum() >= MIN_SERVERS)


def _find_neighbours(server: NDArray[np.intp], vectors: Vectors) -> NDArray[np.intp]:
    """Returns the server of the nearest of all other tools, for each tool: [n]."""
    neighbour = np.empty(len(vectors), np.intp)
    for first in range(0, len(vectors), _PART):
        rows = np.arange(first, min(first + _PART, len(vectors)))
        cosines = vectors[rows] @ vectors.T
        cosines[np.arange(rows.size), rows] = -1
        neighbour[rows] = server[cosines.argmax(axis=1)]
    return neighbour


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


def _is_older(accepted_at: int, other: int) -> bool:
    """Whether a tool was accepted before another one: Unix times, 0 for one that never was."""
    return accepted_at > 0 and (other == 0 or accepted_at + SAME_AGE_S < other)
