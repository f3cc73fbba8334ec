"""What an encoder is."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""float32, shape [n, dim] or [dim]; every row has length 1."""


class Encoder(Protocol):
    """Turns texts into unit vectors. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """The model's name and revision: equal names mean interchangeable vectors."""
        ...

    @property
    def model(self) -> str:
        """The model's name alone, as the model table and the calibration know it."""
        ...

    @property
    def dim(self) -> int:
        """Length of a vector."""
        ...

    @property
    def device(self) -> str:
        """What it runs on: ``cpu``, ``remote``, or one of `device.ACCELERATORS`."""
        ...

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of the texts to be found: float32 [len(texts), dim], unit rows."""
        ...

    def knows(self, word: str) -> bool:
        """Whether the model has seen a word, rather than spelling it out of small pieces."""
        ...

    def query(self, text: str) -> Vectors:
        """The vector of a question, with the model's query prefix: float32 [dim], length 1."""
        ...

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        """The vectors of a question and of each of its parts: float32 [1 + len(parts), dim].

        Unit rows, the question's first. The parts are pieces of the text, in
        order; the first row is what `query` gives.
        """
        ...
