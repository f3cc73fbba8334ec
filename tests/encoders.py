"""Encoders that are not the bundled one, and yet embed for real."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from toolscript.embedding.base import Encoder, Vectors


@dataclass
class Narrow:
    """The bundled model as one of those whose cosines all lie close together would have it.

    A part of every vector is the same for all texts, so cosine c becomes
    (1 − part) · c + part: the order stays, the scale is another.
    """

    inner: Encoder
    part: float
    name: str = "narrow@1"
    model: str = "narrow"
    device: str = "cpu"
    texts: list[str] = field(default_factory=list[str])

    @property
    def dim(self) -> int:
        return self.inner.dim + 1

    def knows(self, word: str) -> bool:
        return self.inner.knows(word)

    def documents(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        rows = self.inner.documents(texts) * np.sqrt(1 - self.part)
        same = np.full((len(texts), 1), np.sqrt(self.part), dtype=np.float32)
        return np.hstack([rows, same]).astype(np.float32)

    def query(self, text: str) -> Vectors:
        return self.documents([text])[0]

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        return self.documents([text, *parts])
