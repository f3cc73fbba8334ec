"""An encoder without a model: a vector counts a text's words."""

import zlib
from collections.abc import Sequence

import numpy as np

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.text.words import words


class WordEncoder:
    """An `Encoder` for tests: texts that share words are similar, in every process alike.

    Each word has one random direction, which a checksum of the word seeds; a text's vector is the
    sum of its words' directions at length 1. An empty text counts as one word. A vector has
    ``dim`` numbers; ``model`` is the name that the calibration and the caches know it by.
    """

    device = "cpu"

    def __init__(self, dim: int = 64, model: str = "words") -> None:
        self.dim = dim
        self.model = model

    @property
    def name(self) -> str:
        """The model's name and its dimension."""
        return f"{self.model}@{self.dim}"

    def knows(self, word: str) -> bool:
        """Whether ``word`` has a letter or a digit."""
        return bool(words(word))

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Returns a unit vector for each of ``texts``: float32 [len(texts), dim]."""
        rows = np.array([self._sum(text) for text in texts]).reshape(len(texts), self.dim)
        return unit_rows(rows)

    def query(self, text: str) -> Vectors:
        """Returns the unit vector of ``text``, a question: float32 [dim]."""
        return self.documents([text])[0]

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        """Returns the unit vectors of ``text`` and its ``parts``: float32 [1 + len(parts), dim]."""
        return self.documents([text, *parts])

    def _sum(self, text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        seeds = [zlib.crc32(word.encode()) for word in words(text) or [text]]
        return np.sum([np.random.default_rng(seed).normal(size=self.dim) for seed in seeds], axis=0)
