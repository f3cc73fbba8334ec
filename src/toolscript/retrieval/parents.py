"""Parents and their passages: groups of rows, of which one row each is a hit."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.intp]
"""Row numbers of a corpus."""


@dataclass(frozen=True, slots=True)
class ParentGroups:
    """Rows, those of the same parent one after the other."""

    rows: Rows
    starts: Rows
    """Where each group begins."""
    groups: Rows
    """Each row's group, as a number from 0: as long as ``rows``."""

    @classmethod
    def of(cls, rows: Rows, parents: Rows) -> "ParentGroups":
        """Groups these rows; ``parents`` holds the parent's row of each."""
        order = np.argsort(parents, kind="stable")  # ids of parents may sort into each other
        another = np.diff(parents[order], prepend=-1).astype(bool)
        return cls(rows[order], np.flatnonzero(another), np.cumsum(another) - 1)

    def best_per_parent(self, scores: NDArray[np.floating]) -> Rows:
        """Returns of each group the row that scores best, the first of several; sorted.

        ``scores`` has one entry per row of the corpus.
        """
        if not self.rows.size:
            return self.rows
        own = scores[self.rows]
        best = np.flatnonzero(own == np.maximum.reduceat(own, self.starts)[self.groups])
        first = np.flatnonzero(np.diff(self.groups[best], prepend=-1))
        return np.sort(self.rows[best[first]])
