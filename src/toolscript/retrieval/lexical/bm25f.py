"""The lexical signal (``fuzzy``): BM25F over stems, with typos corrected.

BM25 over the fields of a document (Robertson & Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009, section 3.6: field weights inside
the term frequency), saturated onto [0, 1]. A word that no document has is
looked up among the words that some have, by edit distance.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Corpus, Mask, Query, Ranking
from toolscript.retrieval.lexical.analyzer import (
    FIELDS,
    Analyzer,
    Numbers,
    Stemmer,
    TokenIds,
    Vocabulary,
)
from toolscript.retrieval.lexical.spelling import Spellings

FIELD_WEIGHTS = {
    "name": 2.5,
    "title": 2.5,
    "server": 1.5,
    "description": 1.0,
    "parameters": 1.0,
    "details": 0.3,
}
"""The seed's 0.3 : 0.5 : 0.2, with the description as the unit; names of parameters count like
it, what the schema says about them counts less."""
K1 = 1.2
B = 0.75
HALF = 8.0
"""The BM25 score that becomes 0.5, where it is the best of the corpus."""
SHARPNESS = 1.5
"""The power to which a document's share of the best score is raised."""
TYPO_DISCOUNT = 0.7
"""A word reached through one edit counts this much; through two, its square."""
_MAX_UNUSED_WORDS = 10_000
"""So many words that no document has any more stay in the vocabulary before it is rebuilt."""

_REMEMBERED = 1024
"""So many words' terms are remembered: subqueries repeat the words of the question."""


class LexicalSignal:
    """BM25 over fields with typo-tolerant words.

    A document's words are taken apart once; an index over a new corpus is then
    a matter of sorting numbers.
    """

    def __init__(self) -> None:
        self.stemmer = Stemmer()
        self._analyzer = Analyzer(self.stemmer)

    def index(self, corpus: Corpus) -> "LexicalIndex":
        """Returns an index over the documents of ``corpus``. Quick."""
        parent_of = None
        if corpus.parent_rows is not None:
            rows, parent_of = np.unique(corpus.parent_rows, return_inverse=True)
            parents: list[int] = rows.tolist()
            corpus = Corpus(corpus.documents[row] for row in parents)
        token_ids, vocabulary = self._analyzer.of(corpus), self._analyzer.vocabulary
        index = LexicalIndex(token_ids, vocabulary, parent_of)
        if index.unused_words > max(_MAX_UNUSED_WORDS, len(index.spellings.words)):
            self._analyzer = Analyzer(self.stemmer)
        return index


def saturated(totals: Vectors, visible: Mask | None = None) -> Vectors:
    """BM25 scores float32 [n] onto [0, 1): (score / best) ^ `SHARPNESS` · best / (best + `HALF`).

    The best document's score says how good the match is at all; the others'
    say how far behind they are, however long the question: saturating each by
    itself would make the upper ones of a long question alike. The best is that
    of the ``visible`` documents; the others' scores are 0.
    """
    if visible is not None:
        totals = totals * visible
    best = float(totals.max(initial=0.0))
    if best <= 0:
        return totals
    return ((totals / best) ** SHARPNESS * (best / (best + HALF))).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Postings:
    """Per stem the rows that have it, and a value for each; a row occurs once per stem."""

    stems: Numbers
    rows: Numbers
    values: Vectors
    starts: NDArray[np.int64]
    """Where each stem's rows begin, and one past the last: int64 [stems + 1]."""

    @classmethod
    def of(cls, stems: Numbers, rows: Numbers, values: Vectors, count: int) -> "_Postings":
        """Sum the values of equal (stem, row), for ``count`` stems; rows are sorted already."""
        order = np.argsort(stems, kind="stable")
        stems, rows, values = stems[order], rows[order], values[order]
        another = np.diff(stems, prepend=-1).astype(bool) | np.diff(rows, prepend=-1).astype(bool)
        firsts = np.flatnonzero(another)
        summed = np.add.reduceat(values, firsts) if firsts.size else values
        stems = stems[firsts]
        starts = np.concatenate([[0], np.bincount(stems, minlength=count).cumsum()])
        return cls(stems, rows[firsts], summed, starts)

    def scaled(self, values: Vectors) -> "_Postings":
        return _Postings(self.stems, self.rows, values, self.starts)

    def frequencies(self) -> NDArray[np.int64]:
        """How many rows each stem has."""
        return np.diff(self.starts)

    def add(self, stem: int, weight: float, totals: Vectors) -> None:
        part = slice(self.starts[stem], self.starts[stem + 1])
        totals[self.rows[part]] += weight * self.values[part]

    def value(self, stem: int, row: int) -> float:
        start, end = self.starts[stem], self.starts[stem + 1]
        position = start + int(np.searchsorted(self.rows[start:end], row))
        here = position < end and self.rows[position] == row
        return float(self.values[position]) if here else 0.0


@dataclass(frozen=True, slots=True)
class Term:
    """A stem of the question that some document has."""

    stem: str
    asked: str
    """The question's word."""
    meant: str
    """The word that was taken for it; another one where a typo was repaired."""
    weight: float

    @property
    def shown(self) -> str:
        """The word as asked, and what it was taken for."""
        return self.asked if self.asked == self.meant else f"{self.asked} → {self.meant}"


class LexicalIndex:
    """An inverted index of stems: immutable, its memory that of the corpus' words.

    Where there are passages, only parents have words, and each passage gets the
    scores of its parent: ``parent_of`` is its place among them, int64 [n].
    """

    def __init__(
        self,
        documents: list[TokenIds],
        vocabulary: Vocabulary,
        parent_of: NDArray[np.intp] | None = None,
    ) -> None:
        self._parent_of = parent_of
        self.stemmer = vocabulary.stemmer
        self._size = len(documents)
        self._stems = vocabulary.stems
        words_, rows, fields, lengths = _flattened(documents)
        stems = np.array(vocabulary.stem_of, dtype=np.int32)[words_]
        count = len(vocabulary.stems)
        weights = _field_scales(lengths)[rows, fields]
        postings = _Postings.of(stems, rows, weights, count)
        frequencies = postings.frequencies()
        self._count = count
        rarity = np.log(1 + (self._size - frequencies + 0.5) / (frequencies + 0.5))
        self._rarity: Vectors = rarity.astype(np.float32)
        tf = postings.values
        impacts = self._rarity[postings.stems] * tf * (K1 + 1) / (tf + K1)
        self._postings = postings.scaled(impacts.astype(np.float32))
        self._names = self._name_shares(stems, rows, fields)
        present = np.bincount(words_, minlength=len(vocabulary.words)) > 0
        self.unused_words = int(present.size - present.sum())
        self.spellings = Spellings([vocabulary.words[n] for n in np.flatnonzero(present)])
        self._resolved = lru_cache(_REMEMBERED)(self._resolve)

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        """Score every document; one without any of the words gets 0.

        Scores are relative to the best of the ``visible`` rows, by default of all; the other
        rows get 0.
        """
        totals = np.zeros(self._size, dtype=np.float32)
        for term in self.terms(query):
            self._postings.add(self._stems[term.stem], term.weight, totals)
        if visible is not None and self._parent_of is not None:
            visible = np.bincount(self._parent_of[visible], minlength=self._size) > 0
        return Ranking(self._per_document(saturated(totals, visible)))

    def understands(self, word: str) -> bool:
        """Whether some document has the word, or one that it may be a typo of."""
        return bool(self._resolved(word))

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """The words in common, strongest first, each with its share of the match."""
        impacts = {term: self.impact(term, row) for term in self.terms(query)}
        total = sum(impacts.values())
        found = sorted((t for t in impacts if impacts[t] > 0), key=lambda t: -impacts[t])
        return tuple(f"{term.shown} {impacts[term] / total:.0%}" for term in found)

    def name_coverage(self, query: Query) -> Vectors:
        """How much of each document's name the query says: float32 [n] in [0, 1].

        The share of the name's words, each counted by its rarity.
        """
        shares = np.zeros(self._size, dtype=np.float32)
        for term in self.terms(query):
            self._names.add(self._stems[term.stem], term.weight, shares)
        return self._per_document(np.minimum(shares, 1.0))

    def terms(self, query: Query) -> list[Term]:
        """The query's stems that the corpus has, each once; typos repaired."""
        found: dict[str, Term] = {}
        for word in query.content_words:
            for term in self._resolved(word):
                if term.stem not in found or found[term.stem].weight < term.weight:
                    found[term.stem] = term
        return list(found.values())

    def impact(self, term: Term, row: int) -> float:
        """What a term of the query adds to a document's BM25 score."""
        place = row if self._parent_of is None else int(self._parent_of[row])
        return term.weight * self._postings.value(self._stems[term.stem], place)

    def _per_document(self, scores: Vectors) -> Vectors:
        return scores if self._parent_of is None else scores[self._parent_of]

    def knows(self, word: str) -> bool:
        """Whether some document has this word, in whatever form."""
        return self._has(self.stemmer(word))

    def _has(self, stem: str) -> bool:
        number = self._stems.get(stem, self._count)
        starts = self._postings.starts
        return number < self._count and bool(starts[number] < starts[number + 1])

    def _resolve(self, word: str) -> list[Term]:
        stem = self.stemmer(word)
        if self._has(stem):
            return [Term(stem, word, word, 1.0)]
        return [
            Term(self.stemmer(near), word, near, weight) for near, weight in self._nearest(word)
        ]

    def _nearest(self, word: str) -> list[tuple[str, float]]:
        """The spellings fewest edits away, at most one edit per four letters."""
        allowed = min(2, len(word) // 4)
        if not allowed or not word.isalpha():
            return []
        found = sorted((edits, near) for near, edits in self.spellings.within(word, allowed))
        return [(near, TYPO_DISCOUNT**edits) for edits, near in found[:4] if edits == found[0][0]]

    def _name_shares(self, stems: Numbers, rows: Numbers, fields: NDArray[np.intp]) -> _Postings:
        """Per stem of a document's name, its part of the name, by rarity."""
        named = fields == FIELDS.index("name")
        stems, rows = stems[named], rows[named]
        postings = _Postings.of(stems, rows, np.ones(stems.size, np.float32), self._count)
        rarity = self._rarity[postings.stems]
        total = np.bincount(postings.rows, weights=rarity, minlength=self._size)
        return postings.scaled((rarity / total[postings.rows]).astype(np.float32))


def _flattened(
    documents: list[TokenIds],
) -> tuple[Numbers, Numbers, NDArray[np.intp], Numbers]:
    """All words' numbers, each one's row and field, and the lengths int32 [documents, fields]."""
    width = len(FIELDS)
    lengths = np.array([d.lengths for d in documents], dtype=np.int32).reshape(-1, width)
    numbers = np.concatenate([np.empty(0, np.int32), *(d.numbers for d in documents)])
    rows = np.repeat(np.arange(len(documents), dtype=np.int32), lengths.sum(axis=1))
    fields = np.repeat(np.tile(np.arange(width), len(documents)), lengths.ravel())
    return numbers, rows, fields, lengths


def _field_scales(lengths: Numbers) -> Vectors:
    """What one occurrence counts: weight / (1 − b + b · length / average), float32 [n, fields]."""
    if not lengths.size:
        return np.empty((0, len(FIELDS)), np.float32)
    averages = np.maximum(1.0, lengths.mean(axis=0))
    weights = np.array([FIELD_WEIGHTS[field] for field in FIELDS])
    return (weights / (1 - B + B * lengths / averages)).astype(np.float32)
