"""The protocols of an encoder and of a cache for its vectors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""float32, shape [n, dim] or [dim]; every row has length 1."""


def unit_rows(rows: NDArray[np.floating]) -> Vectors:
    """Returns the rows at length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-12)).astype(np.float32)


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
        """The device that it runs on: ``cpu``, ``remote``, or one of `device.ACCELERATORS`."""
        ...

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of the texts to be found: float32 [len(texts), dim], unit rows."""
        ...

    def knows(self, word: str) -> bool:
        """Whether the model has seen a word, rather than spelling it out of small pieces."""
        ...

    def query(self, text: str) -> Vectors:
        """The vector of ``text``, a question, with the model's prefix: float32 [dim], length 1."""
        ...

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        """The vectors of a question and of each of its parts: float32 [1 + len(parts), dim].

        Unit rows, the question's first. The parts are pieces of the text, in
        order; the first row is that of `query`.
        """
        ...


class CachedVector(msgspec.Struct, frozen=True, gc=False):
    """One document's vector, float32 [dim], and the digest of the content it was computed from."""

    digest: str
    vector: Vectors


class VectorCache(Protocol):
    """Keeps the vectors of a set of documents from one process to the next.

    Any thread may call. A failure is logged and never raised. A cache that all sets of documents
    share knows a vector by its digest only: it returns none if none is ``wanted``, has no other
    caches beside it, and keeps the vectors that `save` would delete.
    """

    def load(self, model: str, wanted: Mapping[str, str] | None = None) -> dict[str, CachedVector]:
        """Returns the vectors of an encoder's name by document id.

        ``wanted`` maps document ids to digests: at least the vectors of these are
        returned, as far as they are there. Without it all are returned.
        """
        ...

    def load_from_other_caches(
        self, model: str, wanted: Mapping[str, str] | None = None
    ) -> dict[str, CachedVector]:
        """Returns the same from the caches of other sets of documents; the newest one counts."""
        ...

    def save(
        self,
        model: str,
        entries: Mapping[str, CachedVector],
        keep: Callable[[str], bool] | None = None,
    ) -> bool:
        """Makes the cache hold ``entries``; returns False if that fails.

        Vectors that another process has saved stay if ``keep`` returns True for
        their id. Those of another model, and all others, are deleted.
        """
        ...
