"""Server context: what a tool's server is about counts a little in the tool's own vector.

    v' = v + `SHARE` · m, at length 1

with v the tool's vector and m the mean of those of its server's tools. A question
that speaks of what a server is for ("my calendar") then finds its tools, though
none of their descriptions repeats it. The mean of a server whose tools have
little in common is short, and so adds little; a tool that is alone stays where it is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors

SHARE = 0.4


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The means of the servers of n tools."""

    means: Vectors
    """float32 [servers, dim], each at most of length 1."""
    server: NDArray[np.intp]
    """By a tool's row, its server's: [n]."""
    length: Vectors
    """The length of v + `SHARE` · m before it is made 1: float32 [n]."""

    @classmethod
    def of(cls, servers: list[str], vectors: Vectors) -> "ServerContext":
        """The context of tools with these servers and ``vectors``, float32 [n, dim], unit rows."""
        numbers: dict[str, int] = {}
        server = np.array([numbers.setdefault(name, len(numbers)) for name in servers], np.intp)
        sums = np.zeros((len(numbers), vectors.shape[1]), dtype=np.float32)
        np.add.at(sums, server, vectors)
        means = sums / np.bincount(server, minlength=len(numbers)).astype(np.float32)[:, None]
        beside = means[server]
        inner = np.einsum("ij,ij->i", vectors, beside)
        squared = 1 + 2 * SHARE * inner + SHARE**2 * np.einsum("ij,ij->i", beside, beside)
        return cls(means, server, np.sqrt(squared).astype(np.float32))

    def applied(self, cosines: Vectors, question: Vectors) -> Vectors:
        """The cosines with v' in place of v: float32 [n]; ``question`` has length 1."""
        beside = (self.means @ question)[self.server]
        return ((cosines + SHARE * beside) / self.length).astype(np.float32)

    def vectors(self, vectors: Vectors) -> Vectors:
        """Returns v' for each of the ``vectors`` that this was made of: float32 [n, dim]."""
        beside = self.means[self.server]
        return ((vectors + SHARE * beside) / self.length[:, None]).astype(np.float32)
