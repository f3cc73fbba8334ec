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

from toolscript.embedding.base import Vectors, unit_rows

COMMON = 0.6
SHARE = 0.4
_PART = 1024
"""The number of tools that are computed together."""


@dataclass(frozen=True, slots=True)
class Basis:
    """The part that all tools have in common."""

    common: Vectors
    """`COMMON` · a: float32 [dim]."""
    scale: float
    """The mean length of v − `COMMON` · a."""

    def rescale(self, cosines: Vectors, question: Vectors) -> Vectors:
        """Puts cosines with w on the scale of those with v, in place, and returns them.

        Args:
            cosines: float32 [n], or [questions, n].
            question: Of length 1: float32 [dim], or [questions, dim].
        """
        cosines *= np.float32(self.scale)
        cosines += (question @ self.common)[..., None]
        return cosines


def common_of(mean: NDArray[np.floating]) -> Vectors:
    """Returns `COMMON` · a for the ``mean`` a of all tools' vectors: float32 [dim]."""
    return (COMMON * mean).astype(np.float32)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts that n tools have in common with all tools, and with those of their servers."""

    basis: Basis
    means: Vectors
    """The m of each server: float32 [servers, dim], each at most of length 1."""
    server: NDArray[np.intp]
    """The row of each tool's server: [n]."""
    lengths: tuple[Vectors, Vectors]
    """The lengths of u and of w before they are made 1: float32 [n] each."""

    @classmethod
    def of(
        cls, servers: Sequence[str], vectors: Vectors, basis: Basis | None = None
    ) -> "ServerContext":
        """The context of all tools of some servers.

        Args:
            servers: The server of each tool.
            vectors: float32 [n, dim], unit rows.
            basis: That of all tools; None if these are all.
        """
        numbers: dict[str, int] = {}
        server = np.array([numbers.setdefault(name, len(numbers)) for name in servers], np.intp)
        common = common_of(vectors.mean(axis=0)) if basis is None else basis.common
        apart, before = _apart(vectors, common)
        order = np.argsort(server, kind="stable")
        counts = np.bincount(server, minlength=len(numbers))
        means = np.stack(
            [apart[rows].sum(axis=0) for rows in np.split(order, np.cumsum(counts)[:-1])]
        )
        means /= counts.astype(np.float32)[:, None]
        basis = basis or Basis(common, float(before.mean()))
        return cls(basis, means, server, (before, _lengths_with(apart, means, server)))

    @classmethod
    def among(
        cls, basis: Basis, means: Vectors, server: NDArray[np.intp], vectors: Vectors
    ) -> "ServerContext":
        """The context of any tools: see the fields. ``vectors`` are float32 [n, dim], unit rows."""
        apart, before = _apart(vectors, basis.common)
        return cls(basis, means, server, (before, _lengths_with(apart, means, server)))

    def move(self, vectors: Vectors) -> Vectors:
        """Returns the w of all tools: float32 [n, dim]. ``vectors`` are those given before."""
        apart, _ = _apart(vectors, self.basis.common)
        return unit_rows(apart + SHARE * self.means[self.server])

    def apply_to(self, cosines: Vectors, question: Vectors) -> Vectors:
        """Returns cosines with w on the scale of those with v: float32 [n].

        Args:
            cosines: Those with v: float32 [n].
            question: Of length 1: float32 [dim].
        """
        before, after = self.lengths
        beside = (SHARE * (self.means @ question))[self.server]
        shared = float(self.basis.common @ question)
        moved = cosines - shared
        moved /= before
        moved += beside
        moved /= after
        return self.basis.rescale(moved, question)


def originals(moved: Vectors, means: Vectors, common: Vectors) -> Vectors:
    """Returns the v of each w: float32 [n, dim], unit rows. See `ServerContext.moved`.

    Args:
        moved: float32 [n, dim], unit rows.
        means: The m of each one's server: float32 [n, dim].
        common: See `Basis`.
    """
    shared = SHARE * means
    along = (moved * shared).sum(axis=1)
    lengths = along + np.sqrt(along**2 + 1 - (shared**2).sum(axis=1))
    apart = lengths[:, None] * moved - shared
    along = apart @ common
    lengths = np.sqrt(along**2 + 1 - common @ common) - along
    return unit_rows(lengths[:, None] * apart + common)


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
