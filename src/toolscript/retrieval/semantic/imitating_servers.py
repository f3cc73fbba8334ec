"""Finds the tools of servers that imitate the tools of many others.

The neighbour of a tool is the nearest of all other tools by meaning. Most tools have theirs within
their own server, which is about one subject, or all within one other server about the same subject.
A server is taken for an imitator if neither holds: most of its tools have neighbours elsewhere, in
many servers. That is true of copies, of descriptions written to be found for everything, and of a
server that offers the tools of others once more, whose originals then come first.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

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
_PART = 512


def find_imitations(servers: Sequence[str], vectors: Vectors) -> NDArray[np.bool_] | None:
    """Returns which tools are imitations: bool [n]; None if none is, or if there are too many.

    Args:
        servers: The server of each tool.
        vectors: float32 [n, dim], unit rows.
    """
    names, server = np.unique(np.array(servers), return_inverse=True)
    counts = np.bincount(server)
    if len(vectors) > MAX_TOOLS or len(names) <= MIN_SERVERS or counts.max() < MIN_TOOLS:
        return None
    elsewhere, neighbour = _find_neighbours(server, vectors)
    large = np.flatnonzero(counts >= MIN_TOOLS)
    imitators = [
        number
        for number in large
        if _imitates(server[neighbour[elsewhere & (server == number)]], counts[number])
    ]
    if not imitators or len(imitators) > max(MAX_IMITATORS, MAX_IMITATOR_SHARE * large.size):
        return None
    return np.isin(server, imitators)


def _imitates(others: NDArray[np.intp], size: int) -> bool:
    """Returns whether a server imitates others.

    Args:
        others: The servers of those of its tools' neighbours that are elsewhere.
        size: The number of its tools.
    """
    if others.size < MIN_SHARE * size:
        return False
    shares = np.bincount(others) / others.size
    return bool(1 / (shares**2).sum() >= MIN_SERVERS)


def _find_neighbours(
    server: NDArray[np.intp], vectors: Vectors
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Returns whether each tool's neighbour is elsewhere, and the nearest tool there: [n] each."""
    elsewhere, neighbour = np.zeros(len(vectors), np.bool_), np.zeros(len(vectors), np.intp)
    for first in range(0, len(vectors), _PART):
        rows = np.arange(first, min(first + _PART, len(vectors)))
        cosines = vectors[rows] @ vectors.T
        cosines[np.arange(rows.size), rows] = -1
        is_own = server[rows][:, None] == server
        own = np.where(is_own, cosines, -1).max(axis=1)
        cosines[is_own] = -1
        neighbour[rows] = cosines.argmax(axis=1)
        elsewhere[rows] = cosines.max(axis=1) > own
    return elsewhere, neighbour
