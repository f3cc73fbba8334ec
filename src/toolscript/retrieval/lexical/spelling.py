"""Corrects spelling: finds the words of a list that are nearest to a misspelled one."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from toolscript.text import printable


class Spellings:
    """A list of words, none of them empty, that can be searched for near ones. Immutable.

    Distance is optimal string alignment: insertions, deletions, substitutions
    and transpositions of neighbours cost one each.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self._lengths = np.fromiter(map(len, words), np.int64, len(words))

    def within(self, word: str, edits: int) -> list[tuple[str, int]]:
        """The words at most ``edits`` away, in their order, and how far each is."""
        return self._near(word, np.array(edits))

    def alike(self, word: str, similarity: float) -> list[tuple[str, float]]:
        """The words at least so similar, in their order: 1 − edits / the longer one's length."""
        longer = np.maximum(self._lengths, len(word))
        found = self._near(word, ((1 - similarity) * longer + 1e-9).astype(np.int64))
        return [(near, 1 - edits / max(len(near), len(word))) for near, edits in found]

    def _near(self, word: str, allowed: NDArray[np.int64]) -> list[tuple[str, int]]:
        """The words at most ``allowed`` away, a number for each word or one for all."""
        likely = np.abs(self._lengths - len(word)) <= allowed
        positions: list[int] = np.flatnonzero(likely).tolist()
        if not positions:
            return []
        most = np.broadcast_to(allowed, likely.shape)[positions]
        candidates = [self.words[position] for position in positions]
        distances = process.cdist(
            [word], candidates, scorer=OSA.distance, score_cutoff=int(most.max()), dtype=np.int32
        )[0]
        near = np.flatnonzero(distances <= most).tolist()
        return [(candidates[position], int(distances[position])) for position in near]


def not_known(kind: str, name: str, known: Iterable[str], instead: str) -> str:
    """What to say of a name that no ``kind`` has: the nearest names, or what to do ``instead``."""
    near = process.extract(name, known, scorer=fuzz.WRatio, limit=3, score_cutoff=60)
    nearest = ", ".join(found for found, _, _ in near)
    advice = f"the nearest are: {nearest}" if nearest else instead
    return f"no {kind} is called {printable(name, 100)!r}; {advice}"
