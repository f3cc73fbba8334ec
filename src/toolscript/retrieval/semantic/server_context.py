"""Server context: vectors say less of all tools' common part, more of a server's subject.

    u = v − `COMMON` · a, at length 1
    w = u + `SHARE` · m, at length 1

with v the tool's vector, a the mean of all tools' v, and m the mean of the u of its
server's tools. The part that all tools have in common tells none apart, so it counts
less (Mu and Viswanath 2018, "All-but-the-Top"). A question that speaks of what a
server is for ("my calendar") finds its tools, though none of their descriptions
repeats it. The mean of a server whose tools have little in common is short, and so
adds little; a tool that is the only one stays where it is.

The cosines with w are then put on the scale of those with v, on which the model is
calibrated: what a question has with everything is added again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

COMMON = 0.6
SHARE = 0.4
_PART = 1024
"""The number of tools that are computed together."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts that n tools have in common with all tools, and with those of their servers."""

    common: Vectors
    """`COMMON` · a: float32 [dim]."""
    scale: float
    """The mean length of v − `COMMON` · a."""
    means: Vectors
    """The m of each server: float32 [servers, dim], each at most of length 1."""
    server: NDArray[np.intp]
    """The row of each tool's server: [n]."""
    lengths: tuple[Vectors, Vectors]
    """The lengths of u and of w before they are made 1: float32 [n] each."""

    @classmethod
    def of(cls, servers: Sequence[str], vectors: Vectors) -> "ServerContext":
        """The context of all tools.

        Args:
            servers: The server of each tool.
            vectors: float32 [n, dim], unit rows.
        """
        numbers: dict[str, int] = {}
        server = np.array([numbers.setdefault(name, len(numbers)) for name in servers], np.intp)
        common = (COMMON * vectors.mean(axis=0)).astype(np.float32)
        apart, before = _apart(vectors, common)
        order = np.argsort(server, kind="stable")
        counts = np.bincount(server, minlength=len(numbers))
        means = np.stack(
            [apart[rows].sum(axis=0) for rows in np.split(order, np.cumsum(counts)[:-1])]
        )
        means /= counts.astype(np.float32)[:, None]
        after = _lengths_with(apart, means, server)
        return cls(common, float(before.mean()), means, server, (before, after))

    def apply_to(self, cosines: Vectors, question: Vectors) -> Vectors:
        """Returns cosines with w on the scale of those with v: float32 [n].

        Args:
            cosines: Those with v: float32 [n].
            question: Of length 1: float32 [dim].
        """
        before, after = self.lengths
        beside = (SHARE * (self.means @ question))[self.server]
        shared = float(self.common @ question)
        moved = cosines - shared
        moved /= before
        moved += beside
        moved /= after
        moved *= np.float32(self.scale)
        moved += shared
        return moved


def _apart(vectors: Vectors, common: Vectors) -> tuple[Vectors, Vectors]:
    """Returns u, float32 [n, dim], and its length before that was made 1, float32 [n].

    A part at a time, which stays in the processor's cache.
    """
    apart, lengths = np.empty_like(vectors), np.empty(len(vectors), np.float32)
    for part in _parts(len(vectors)):
        moved = vectors[part] - common
        lengths[part] = np.linalg.norm(moved, axis=1)
        np.divide(moved, np.maximum(lengths[part], 1e-12)[:, None], out=apart[part])
    return apart, lengths


def _lengths_with(apart: Vectors, means: Vectors, server: NDArray[np.intp]) -> Vectors:
    """Returns the lengths of u + `SHARE` · m: float32 [n]."""
    lengths = np.empty(len(apart), np.float32)
    for part in _parts(len(apart)):
        lengths[part] = np.linalg.norm(apart[part] + SHARE * means[server[part]], axis=1)
    return lengths


def _parts(size: int) -> Iterator[slice]:
    return (slice(first, first + _PART) for first in range(0, size, _PART))
