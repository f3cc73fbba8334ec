"""Spellings: the nearest of many words to one that may be misspelled.

Edit distance is dear and most words are nowhere near. An insertion or a
deletion changes by one at most how often a word has which letter, a
substitution by two; so words whose lengths or letters differ by more than the
edits allowed are left out before a single distance is computed.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from toolscript.text import printable

_BITS = 64


def _letters(words: Sequence[str], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The letters of each word as bits, and those that it has more than once: uint64 [2, n]."""
    letters = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), np.uint32)
    cells = np.repeat(np.arange(len(words)), lengths) * _BITS + letters % _BITS
    counts = np.bincount(cells, minlength=len(words) * _BITS).reshape(-1, _BITS)
    bits = [np.packbits(counts > least, axis=1, bitorder="little") for least in (0, 1)]
    return np.stack(bits).view("<u8")[:, :, 0].astype(np.uint64)


class Spellings:
    """A list of words, none of them empty, that can be searched for near ones. Immutable.

    Distance is optimal string alignment: insertions, deletions, substitutions
    and transpositions of neighbours cost one each.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self._lengths = np.fromiter(map(len, words), np.int64, len(words))
        self._letters = _letters(words, self._lengths)

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
        lengths = np.abs(self._lengths - len(word))
        own = _letters([word], np.array([len(word)]))
        letters = np.bitwise_count(self._letters ^ own).sum(axis=0)
        likely = (lengths <= allowed) & (lengths + letters <= 2 * allowed)
        positions: list[int] = np.flatnonzero(likely).tolist()
        if not positions:
            return []
        most = np.broadcast_to(allowed, lengths.shape)[positions]
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
