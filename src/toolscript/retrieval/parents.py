"""Passages and the wholes that they are of: of each whole one row is a hit."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ParentGroups:
    """Rows, those of the same whole one after the other."""

    rows: Rows
    starts: Rows
    """Where each group begins."""
    of: Rows
    """Each row's group, as a number from 0: as long as ``rows``."""

    @classmethod
    def among(cls, rows: Rows, wholes: Rows) -> "ParentGroups":
        """These rows by their wholes; ``wholes`` has that of each."""
        order = np.argsort(wholes, kind="stable")  # ids of wholes may sort into each other
        another = np.diff(wholes[order], prepend=-1).astype(bool)
        return cls(rows[order], np.flatnonzero(another), np.cumsum(another) - 1)

    def leaders(self, scores: NDArray[np.floating]) -> Rows:
        """Of each group the row that scores best, the first where several do; sorted.

        ``scores`` has that of every row there is.
        """
        if not self.rows.size:
            return self.rows
        own = scores[self.rows]
        best = np.maximum.reduceat(own, self.starts)
        leading = np.flatnonzero(own == best[self.of])
        first = np.flatnonzero(np.diff(self.of[leading], prepend=-1))
        chosen = np.zeros(scores.size, dtype=bool)
        chosen[self.rows[leading[first]]] = True
        return np.flatnonzero(chosen)
