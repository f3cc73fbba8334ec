"""Encoders to which every text is alike; one of them answers late, one fails."""

import threading
from collections.abc import Sequence

import numpy as np

from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.loader import LazyModel, Loaded
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal


class Delighted:
    """To this encoder every text has the same vector, so every cosine is 1."""

    name = "delighted@1"
    model = "delighted"
    device = "cpu"
    dim = 2

    def knows(self, word: str) -> bool:
        return bool(word)

    def documents(self, texts: Sequence[str]) -> Vectors:
        return np.repeat(np.array([[1, 0]], np.float32), len(texts), axis=0)

    def query(self, text: str) -> Vectors:
        return Delighted.documents(self, [text])[0]

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        return Delighted.documents(self, [text, *parts])


class Stuck(Delighted):
    """Answers no question before it is released."""

    name = "stuck@1"

    def __init__(self) -> None:
        self.released = threading.Event()

    def query_with_parts(self, text: str, parts: Sequence[str]) -> Vectors:
        self.released.wait(30)
        return super().query_with_parts(text, parts)


class Broken(Delighted):
    """Fails, with an error that nobody expects, when it embeds documents for the first times."""

    name = "broken@1"

    def __init__(self, failures: int = 1_000_000) -> None:
        self._failures = failures

    def documents(self, texts: Sequence[str]) -> Vectors:
        self._failures -= 1
        if self._failures >= 0:
            raise RuntimeError("out of order")
        return super().documents(texts)


def signal_of(encoder: Encoder) -> SemanticSignal:
    """A signal with this encoder, without a cache."""
    return SemanticSignal(LazyModel(lambda: Loaded(encoder)), lambda: None)
