"""Signals that rank everything alike; one of them answers late, one fails while it prepares."""

import threading
from collections.abc import Iterator
from typing import Self

import numpy as np

from toolscript.retrieval.base import Corpus, Mask, Query, Ranking


class Delighted:
    """A signal to which everything is perfect."""

    name = "delighted"
    vectors = None
    is_incomplete = False

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        del corpus
        return iter(())

    def index(self, corpus: Corpus) -> Self:
        self.size = len(corpus)
        return self

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        del query, visible
        return Ranking(np.ones(self.size, dtype=np.float32))

    def cosines(self, query: Query) -> Ranking:
        return self.rank(query)

    def understands(self, word: str) -> bool:
        return bool(word)

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        del query, row
        return ("everything is perfect",)


class Stuck(Delighted):
    """Answers only when it is released."""

    name = "stuck"

    def __init__(self) -> None:
        self.released = threading.Event()

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        self.released.wait(30)
        return super().rank(query, visible)


class Broken(Delighted):
    """Fails after the first step of its preparation."""

    name = "broken"

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        yield len(corpus)
        raise RuntimeError("out of order")
