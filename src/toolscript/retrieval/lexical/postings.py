"""Postings: which of a segment's documents have which stems, how often and in which fields.

A stem's rarity, which depends on all documents, is not here: a segment stays as it is
while others are added beside it.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolscript.retrieval.lexical.analyzer import FIELDS, Numbers, TokenIds, Vocabulary
from toolscript.retrieval.lexical.spelling import Spellings

Counts = NDArray[np.int64]
NAME = FIELDS.index("name")


class Postings:
    """An inverted index of the documents of one segment: immutable.

    An entry says how often a stem occurs in one field of one document. Entries are sorted by
    stem, then by the document's place, then by field.

    Args:
        documents: The words of each document.
        vocabulary: The words by their numbers.
    """

    def __init__(self, documents: list[TokenIds], vocabulary: Vocabulary) -> None:
        self.documents = documents
        self._vocabulary = vocabulary
        self.lengths = _lengths(documents)
        """How many words each field has: int32 [documents, fields]."""
        words, places, fields = _flatten(documents, self.lengths)
        self._words = words
        stem_of = vocabulary.stem_of
        stems = stem_of[words]
        order = np.argsort(stems, kind="stable")
        stems, places, fields = stems[order], places[order], fields[order]
        firsts = np.flatnonzero(differs(stems) | differs(places) | differs(fields))
        self.counts = np.diff(firsts, append=stems.size).astype(np.float32)
        self.stems, self.places, self.fields = stems[firsts], places[firsts], fields[firsts]
        named = self.fields == NAME
        self.name_stems, self.name_places = self.stems[named], self.places[named]
        """The entries of the documents' names, each stem of a name once."""

    @cached_property
    def frequencies(self) -> Counts:
        """The number of documents that have each stem."""
        another = differs(self.stems) | differs(self.places)
        return np.bincount(self.stems[another], minlength=len(self._vocabulary.stems))

    @cached_property
    def word_counts(self) -> Counts:
        """How often each word occurs."""
        return np.bincount(self._words, minlength=len(self._vocabulary.words))

    @cached_property
    def spellings(self) -> Spellings:
        """The words."""
        words = self._vocabulary.words
        return Spellings([words[number] for number in np.flatnonzero(self.word_counts)])

    def entries(self, stem: int) -> slice:
        """Returns the places of a stem's entries; a stem that is newer has none."""
        # Keys of another type would have all stems converted each time.
        first, last = np.searchsorted(self.stems, np.array((stem, stem + 1), self.stems.dtype))
        return slice(int(first), int(last))

    def of(self, gone: list[int], vocabulary: Vocabulary) -> tuple[Numbers, Counts, Counts]:
        """Returns the lengths, frequencies and word counts that some documents account for."""
        documents = [self.documents[place] for place in gone]
        lengths = _lengths(documents)
        words, places, _ = _flatten(documents, lengths)
        stems = vocabulary.stem_of[words].astype(np.int64)
        pairs = np.unique(stems * max(1, len(documents)) + places)
        frequencies = np.bincount(pairs // max(1, len(documents)), minlength=self.frequencies.size)
        return lengths, frequencies, np.bincount(words, minlength=self.word_counts.size)


def _lengths(documents: list[TokenIds]) -> Numbers:
    rows = [document.lengths for document in documents]
    return np.array(rows, dtype=np.int32).reshape(-1, len(FIELDS))


def _flatten(
    documents: list[TokenIds], lengths: Numbers
) -> tuple[Numbers, Numbers, NDArray[np.int8]]:
    """Returns all words' numbers, and each one's document, by its place, and field."""
    numbers = np.concatenate([np.empty(0, np.int32), *(d.numbers for d in documents)])
    places = np.repeat(np.arange(len(documents), dtype=np.int32), lengths.sum(axis=1))
    fields = np.tile(np.arange(len(FIELDS), dtype=np.int8), len(documents))
    return numbers, places, np.repeat(fields, lengths.ravel())


def differs(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Returns whether each value is another than the one before it; the first one is."""
    differs = np.ones(values.size, np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs
