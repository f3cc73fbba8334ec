"""Corrects spelling: finds the words of a list that are nearest to a misspelled one."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA

from toolscript.text.display import printable

MAX_EDITS = 6
"""More edits are no misspelling, however long the word: 25 letters and more may have that many."""
_MANY, _MANY_ALIKE = 5_000, 600
"""Among more words than these, and more of about the length, signatures save time."""
_LETTERS, _TIMES, _PAIRS = 32, 8, 256
_CHUNK = 20_000
_NEAR = 65
"""A likeness, of 100 at most; short names have some 60 with a longer one by chance."""

Bits = NDArray[np.uint64]


class _Signatures:
    """Bits of words' letters and of their pairs of neighbours, which near words share.

    Of k edits, r insert, delete or replace a letter and at most k − r exchange neighbours. So at
    most r letters of one word are not in the other, and at most 2 r + 3 (k − r) of its pairs.
    """

    def __init__(self, words: Sequence[str], order: NDArray[np.int32]) -> None:
        self.letters: Bits = np.empty((_LETTERS * _TIMES // 64, len(words)), np.uint64)
        """Whether a word has one of each letter, two of each, and so on: uint64 [4, words]."""
        self.pairs: Bits = np.empty((_PAIRS // 64, len(words)), np.uint64)
        for first in range(0, len(words), _CHUNK):
            chunk = slice(first, min(first + _CHUNK, len(words)))
            positions: list[int] = order[chunk].tolist()
            taken = [words[position] for position in positions]
            self.letters[:, chunk], self.pairs[:, chunk] = _bits(taken)
        self.first: Bits = self.letters[0]
        """Whether a word has one of each letter, and two."""
        self.counts = np.bitwise_count(self.first)

    def near(self, word: str, among: slice, edits: int) -> NDArray[np.intp]:
        """Returns the places of the words that may be at most so many edits away."""
        letters, pairs = _bits([word])
        # Most words differ in the letters that they have once or twice.
        shared = np.bitwise_count(letters[0] & self.first[among])
        most = np.maximum(self.counts[among], np.bitwise_count(letters[0]))
        places = np.flatnonzero(most - shared <= edits) + among.start
        different = _different(letters, self.letters[:, places])
        places, different = places[different <= edits], different[different <= edits]
        pairs_different = _different(pairs, self.pairs[:, places])
        return places[pairs_different <= 3 * edits - different]


def _different(bits: Bits, others: Bits) -> NDArray[np.int16]:
    """Returns how many bits either has that the other lacks, by word; the greater number."""
    return np.maximum(_bit_counts(bits)[0], _bit_counts(others)) - _bit_counts(bits & others)


def _bit_counts(bits: Bits) -> NDArray[np.int16]:
    """Returns how many bits are set, by word."""
    counts = np.bitwise_count(bits)
    counted = counts[0].astype(np.int16)
    for each in counts[1:]:  # several times as fast as a sum along the axis
        counted += each
    return counted


def _bits(words: Sequence[str]) -> tuple[Bits, Bits]:
    """Returns the signatures of words: uint64 [4, n], twice."""
    count = len(words)
    lengths = np.fromiter(map(len, words), np.int64, count)
    text = "".join(words).encode("utf-32-le", "surrogatepass")
    letters = np.frombuffer(text, "<u4").astype(np.int64)
    word = np.repeat(np.arange(count), lengths)
    counts = np.bincount(word * _LETTERS + letters % _LETTERS, minlength=count * _LETTERS)
    has = counts.reshape(count, 1, _LETTERS) > np.arange(_TIMES).reshape(-1, 1)
    first = np.flatnonzero(word[1:] == word[:-1])
    pairs = np.zeros((count, _PAIRS), np.bool_)
    pairs[word[first], (letters[first] * 37 + letters[first + 1]) % _PAIRS] = True
    packed = (np.packbits(each.reshape(count, -1), axis=1) for each in (has, pairs))
    letter_bits, pair_bits = (each.view(np.uint64).T for each in packed)
    return letter_bits, pair_bits


class Spellings:
    """A list of words, none of them empty, that can be searched for near ones. Immutable.

    Distance is optimal string alignment: insertions, deletions, substitutions
    and transpositions of neighbours cost one each. Among more than ``many`` words they are looked
    for by signatures first.
    """

    def __init__(self, words: Sequence[str], many: int = _MANY) -> None:
        self.words = words
        self._many = many
        self._many_alike = min(many, _MANY_ALIKE)
        lengths = np.fromiter(map(len, words), np.int32, len(words))
        self._positions = np.argsort(lengths, kind="stable").astype(np.int32)
        self._lengths = lengths[self._positions]

    @cached_property
    def _signatures(self) -> _Signatures:
        return _Signatures(self.words, self._positions)

    def within(self, word: str, edits: int) -> list[tuple[str, int]]:
        """The words at most ``edits`` away, in their order, and how far each is."""
        # Of another type the whole array would be converted.
        bounds = np.array((len(word) - edits, len(word) + edits + 1), np.int32)
        start, end = (int(each) for each in np.searchsorted(self._lengths, bounds))
        if start == end:
            return []
        if len(self.words) > self._many and end - start > self._many_alike:
            places = self._positions[self._signatures.near(word, slice(start, end), edits)]
        else:
            places = self._positions[start:end]
        positions: list[int] = places.tolist()
        candidates = [self.words[position] for position in positions]
        if not candidates:
            return []
        distances = process.cdist(
            [word], candidates, scorer=OSA.distance, score_cutoff=edits, dtype=np.int32
        )[0]
        rows: list[int] = np.flatnonzero(distances <= edits).tolist()
        near = sorted((positions[row], candidates[row], int(distances[row])) for row in rows)
        return [(found, distance) for _, found, distance in near]

    def alike(self, word: str, similarity: float) -> list[tuple[str, float]]:
        """The words at least so similar, in their order: 1 − edits / the longer one's length.

        At most `MAX_EDITS` away.
        """
        share = 1 - similarity
        longest = len(word) / similarity
        return [
            (near, 1 - edits / longer)
            for near, edits in self.within(word, min(MAX_EDITS, int(share * longest + 1e-9)))
            if edits <= share * (longer := max(len(near), len(word))) + 1e-9
        ]


def not_known(kind: str, name: str, known: Iterable[str], instead: str) -> str:
    """Returns a message about a name that no ``kind`` has: the nearest names, or ``instead``."""
    names = [*dict.fromkeys(known)]
    near = process.extract(name, names, scorer=fuzz.WRatio, limit=3, score_cutoff=_NEAR)
    nearest = ", ".join(found for found, _, _ in near)
    advice = f"the nearest are: {nearest}" if nearest else instead
    return f"no {kind} is called {printable(name, 100)!r}; {advice}"
