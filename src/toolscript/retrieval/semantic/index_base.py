"""What a vector index is."""

from typing import Protocol

from toolscript.embedding.base import Vectors


class VectorIndex(Protocol):
    """Immutable rows of unit vectors."""

    def __len__(self) -> int:
        """How many rows."""
        ...

    def cosines(self, query: Vectors) -> Vectors:
        """The cosine of every row with a query float32 [dim]: float32 [n], in row order."""
        ...
