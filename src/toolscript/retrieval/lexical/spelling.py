"""Corrects spelling: finds the words of a list that are nearest to a misspelled one."""

from collections.abc import Iterable, Sequence

import numpy as np
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from toolscript.text.display import printable


class Spellings:
    """A list of words, none of them empty, that can be searched for near ones. Immutable.

    Distance is optimal string alignment: insertions, deletions, substitutions
    and transpositions of neighbours cost one each.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self._positions = sorted(range(len(words)), key=lambda position: len(words[position]))
        self._by_length = [words[position] for position in self._positions]
        self._lengths = np.fromiter(map(len, self._by_length), np.int64, len(words))

    def within(self, word: str, edits: int) -> list[tuple[str, int]]:
        """The words at most ``edits`` away, in their order, and how far each is."""
        bounds = (len(word) - edits, len(word) + edits + 1)
        start, end = (int(each) for each in np.searchsorted(self._lengths, bounds))
        if start == end:
            return []
        candidates = self._by_length[start:end]
        distances = process.cdist(
            [word], candidates, scorer=OSA.distance, score_cutoff=edits, dtype=np.int32
        )[0]
        rows: list[int] = np.flatnonzero(distances <= edits).tolist()
        near = sorted((self._positions[start + row], int(distances[row])) for row in rows)
        return [(self.words[position], distance) for position, distance in near]

    def alike(self, word: str, similarity: float) -> list[tuple[str, float]]:
        """The words at least so similar, in their order: 1 − edits / the longer one's length."""
        share = 1 - similarity
        longest = len(word) / similarity
        return [
            (near, 1 - edits / longer)
            for near, edits in self.within(word, int(share * longest + 1e-9))
            if edits <= share * (longer := max(len(near), len(word))) + 1e-9
        ]


def not_known(kind: str, name: str, known: Iterable[str], instead: str) -> str:
    """What to say of a name that no ``kind`` has: the nearest names, or what to do ``instead``."""
    near = process.extract(name, known, scorer=fuzz.WRatio, limit=3, score_cutoff=60)
    nearest = ", ".join(found for found, _, _ in near)
    advice = f"the nearest are: {nearest}" if nearest else instead
    return f"no {kind} is called {printable(name, 100)!r}; {advice}"
