"""Exact search: one matrix product. The default, and the oracle for whatever is faster."""

import numpy as np

from toolscript.embedding.base import Vectors


class FlatIndex:
    """All rows in one float32 matrix [n, dim]."""

    def __init__(self, rows: Vectors) -> None:
        self._rows = np.ascontiguousarray(rows, dtype=np.float32)

    def __len__(self) -> int:
        """How many rows."""
        return self._rows.shape[0]

    def cosines(self, query: Vectors) -> Vectors:
        """See `VectorIndex.cosines`. O(n · dim)."""
        return self._rows @ query
