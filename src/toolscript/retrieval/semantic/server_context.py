"""Server context: a tool's vector says less of what all tools share, more of its server's subject.

    u = v − `COMMON` · a, at length 1
    w = u + `SHARE` · m, at length 1

with v the tool's vector, a the mean of all tools' v, and m the mean of the u of its
server's tools. What all tools have in common tells none of them apart, so it counts
less (Mu and Viswanath 2018, "All-but-the-Top"). A question that speaks of what a
server is for ("my calendar") finds its tools, though none of their descriptions
repeats it. The mean of a server whose tools have little in common is short, and so
adds little; a tool that is the only one stays where it is.

The cosines with w are then put on the scale of those with v, on which the model is
calibrated: what a question has with everything is added again.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors, unit_rows

COMMON = 0.6
SHARE = 0.4


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The means of n tools and of their servers."""

    common: Vectors
    """`COMMON` · a: float32 [dim]."""
    means: Vectors
    """The m of each server: float32 [servers, dim], each at most of length 1."""
    server: NDArray[np.intp]
    """By a tool's row, its server's: [n]."""
    lengths: tuple[Vectors, Vectors]
    """The lengths of u and of w before they are made 1: float32 [n] each."""

    @classmethod
    def of(cls, servers: list[str], vectors: Vectors) -> "ServerContext":
        """The context of tools with these servers and ``vectors``, float32 [n, dim], unit rows."""
        numbers: dict[str, int] = {}
        server = np.array([numbers.setdefault(name, len(numbers)) for name in servers], np.intp)
        common = (COMMON * vectors.mean(axis=0)).astype(np.float32)
        moved = vectors - common
        length = np.linalg.norm(moved, axis=1)
        moved = unit_rows(moved)
        sums = np.zeros((len(numbers), vectors.shape[1]), dtype=np.float32)
        np.add.at(sums, server, moved)
        means = sums / np.bincount(server, minlength=len(numbers)).astype(np.float32)[:, None]
        moved += SHARE * means[server]
        return cls(common, means, server, (length, np.linalg.norm(moved, axis=1)))

    def applied(self, cosines: Vectors, question: Vectors) -> Vectors:
        """Cosines with w on the scale of those with v: float32 [n]; ``question`` has length 1."""
        before, after = self.lengths
        shared = float(self.common @ question)
        beside = (self.means @ question)[self.server]
        moved = ((cosines - shared) / before + SHARE * beside) / after
        return (shared + float(before.mean()) * moved).astype(np.float32)
