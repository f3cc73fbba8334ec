"""The lexical signal (``fuzzy``): BM25F over stems, with typos corrected.

BM25 over the fields of a document (Robertson & Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009, section 3.6: field weights inside
the term frequency), saturated onto [0, 1]. A word that no document has is
looked up among the words that some have, by edit distance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Corpus, Mask, Part, Query, Ranking, Rows
from toolscript.retrieval.lexical.analyzer import FIELDS, Analyzer, Numbers, Stemmer, Vocabulary
from toolscript.retrieval.lexical.postings import NAME, Postings
from toolscript.types import Document

FIELD_WEIGHTS = {
    "name": 2.5,
    "title": 2.5,
    "server": 1.5,
    "description": 1.0,
    "parameters": 1.0,
    "details": 0.3,
}
"""The seed's 0.3 : 0.5 : 0.2, with the description as the unit; names of parameters count like
it, their descriptions count less."""
K1 = 1.2
B = 0.75
HALF = 8.0
"""The BM25 score that becomes 0.5 if it is the best of the corpus."""
TYPO_DISCOUNT = 0.7
"""A word reached through one edit counts this much; through two, its square."""
_MAX_UNUSED_WORDS = 10_000
"""The number of unused words in the vocabulary from which on it is rebuilt."""

_REMEMBERED = 1024
"""The number of words whose terms are kept: subqueries repeat the question's words."""
_REMEMBERED_STEMS = 256
"""The number of stems whose impacts are kept: most questions have common ones."""


class LexicalSignal:
    """BM25 over fields with typo-tolerant words.

    A document's words are taken apart once, and only the documents of new segments are
    indexed.
    """

    def __init__(self) -> None:
        self.stemmer = Stemmer()
        self._analyzer = Analyzer(self.stemmer)
        self._postings = _postings_by(self._analyzer)
        self._parents: Corpus | None = None

    def index(self, corpus: Corpus) -> "LexicalIndex":
        """Returns an index over the documents of ``corpus``. Quick."""
        parent_of = None
        if corpus.parent_rows is not None:
            rows, parent_of = np.unique(corpus.parent_rows, return_inverse=True)
            parents: list[int] = rows.tolist()
            corpus = Corpus((corpus.documents[row] for row in parents), self._parents)
            self._parents = corpus
        postings = [each.segment.derive(self._postings) for each in corpus.parts]
        statistics = WordStatistics(corpus.parts, postings, self._analyzer.vocabulary)
        if statistics.stale_words > max(_MAX_UNUSED_WORDS, statistics.word_count):
            for each in corpus.parts:  # the first segment may stay, and would keep all words
                each.segment.forget(self._postings)
            self._analyzer = Analyzer(self.stemmer)
            self._postings = _postings_by(self._analyzer)
        parts = [
            PostingsPart(known, part.rows)
            for known, part in zip(postings, corpus.parts, strict=True)
        ]
        return LexicalIndex(parts, statistics, len(corpus), parent_of)


def _postings_by(analyzer: Analyzer) -> Callable[[Sequence[Document]], Postings]:
    return lambda documents: Postings(analyzer.of(documents), analyzer.vocabulary)


def saturate(totals: Vectors) -> Vectors:
    """BM25 scores float32 [n] onto [0, 1): (score / best) ^ 1.5 · best / (best + `HALF`).

    The best document's score says how good the match is at all; the others'
    say how far behind they are, however long the question: saturating each by
    itself would make the upper ones of a long question alike.

    No score is below 0.
    """
    best = float(totals.max(initial=0.0))
    if best <= 0:
        return totals
    shares = totals / np.float32(best)
    # NumPy takes fifteen times as long for any other power.
    return shares * np.sqrt(shares) * np.float32(best / (best + HALF))


@dataclass(frozen=True, slots=True)
class Term:
    """A stem of the question that some document has."""

    stem: str
    asked: str
    """The question's word."""
    meant: str
    """The word that was taken for it; another one if a typo was repaired."""
    weight: float

    @property
    def label(self) -> str:
        """The question's word, with its correction."""
        return self.asked if self.asked == self.meant else f"{self.asked} → {self.meant}"


class PostingsPart:
    """The postings of one segment, and the rows of its documents in the corpus.

    Args:
        postings: The segment's postings.
        rows: The row in the corpus of each document of the segment; −1 if the corpus lacks it.
    """

    def __init__(self, postings: Postings, rows: Rows) -> None:
        self.postings = postings
        self.rows = rows
        self.scales: Vectors = np.empty((0, len(FIELDS)), np.float32)
        """The weight of one occurrence: float32 [documents, fields]."""

    def sums(self, stem: int) -> tuple[Rows, Vectors]:
        """Returns the rows with a stem, each once, and the sums of its occurrences' weights."""
        entries = self.postings.entries(stem)
        places, fields = self.postings.places[entries], self.postings.fields[entries]
        firsts = np.flatnonzero(np.diff(places, prepend=-1))
        counted = self.postings.counts[entries] * self.scales[places, fields]
        sums = np.add.reduceat(counted, firsts) if firsts.size else counted
        rows = self.rows[places[firsts]]
        return rows[rows >= 0], sums[rows >= 0]

    def rows_named(self, stem: int) -> Rows:
        """Returns the rows whose names have a stem."""
        entries = self.postings.entries(stem)
        rows = self.rows[self.postings.places[entries][self.postings.fields[entries] == NAME]]
        return rows[rows >= 0]


class WordStatistics:
    """The statistics of words over the documents that a corpus has of its parts: immutable.

    Any thread may ask. ``vocabulary`` has the words and stems; later ones do not count.
    """

    def __init__(
        self, parts: Sequence[Part], postings: Sequence[Postings], vocabulary: Vocabulary
    ) -> None:
        lengths = np.zeros(len(FIELDS), np.int64)
        frequencies = np.zeros(len(vocabulary.stems), np.int64)
        words_ = np.zeros(len(vocabulary.words), np.int64)
        size = 0
        for part, known in zip(parts, postings, strict=True):
            lengths += known.lengths.sum(axis=0)
            frequencies[: known.frequencies.size] += known.frequencies
            words_[: known.word_counts.size] += known.word_counts
            size += len(known.documents) - len(part.missing_places)
            if part.missing_places:
                gone = known.of(part.missing_places, vocabulary)
                lengths -= gone[0].sum(axis=0)
                frequencies[: gone[1].size] -= gone[1]
                words_[: gone[2].size] -= gone[2]
        self.vocabulary = vocabulary
        self.stemmer = vocabulary.stemmer
        self.averages = lengths / max(1, size)
        """The mean length of each field: float64 [fields]."""
        rarity = np.log(1 + (size - frequencies + 0.5) / (frequencies + 0.5))
        self.rarity: Vectors = rarity.astype(np.float32)
        """The weight of each stem (inverse document frequency): float32 [stems]."""
        self._stems = vocabulary.stems
        self._frequencies = frequencies
        self._words = words_
        self._spellings = [known.spellings for known in postings]
        self._resolved = lru_cache(_REMEMBERED)(self._resolve)

    @property
    def word_count(self) -> int:
        """How many words some document has."""
        return int(np.count_nonzero(self._words))

    @property
    def stale_words(self) -> int:
        """How many words no document has any more."""
        return self._words.size - self.word_count

    def terms(self, query: Query) -> list[Term]:
        """The query's stems that some document has, each once; typos repaired."""
        found: dict[str, Term] = {}
        for word in query.content_words:
            for term in self._resolved(word):
                if term.stem not in found or found[term.stem].weight < term.weight:
                    found[term.stem] = term
        return list(found.values())

    def understands(self, word: str) -> bool:
        """Whether some document has the word, or one that it may be a typo of."""
        return bool(self._resolved(word))

    def knows(self, word: str) -> bool:
        """Whether some document has this word, in whatever form."""
        return self._has(self.stemmer(word))

    def _has(self, stem: str) -> bool:
        number = self._stems.get(stem, self.rarity.size)
        return number < self.rarity.size and bool(self._frequencies[number])

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
        near = {
            (edits, spelling)
            for spellings in self._spellings
            for spelling, edits in spellings.within(word, allowed)
            if self._words[self.vocabulary[spelling]]
        }
        found = sorted(near)
        return [(near, TYPO_DISCOUNT**edits) for edits, near in found[:4] if edits == found[0][0]]


class LexicalIndex:
    """An inverted index of stems: immutable, its memory that of the corpus' words.

    Its statistics are those of the whole corpus, so that its scores are the same however the
    documents are divided into parts. The impacts of a stem are computed when a question
    first has it.

    If there are passages, only parents have words, and each passage gets the
    scores of its parent: ``parent_of`` is its place among them, int64 [n].

    Args:
        parts: The postings of the documents.
        statistics: The statistics of the same documents.
        size: How many documents the parts have.
        parent_of: See above.
    """

    def __init__(
        self,
        parts: Sequence[PostingsPart],
        statistics: WordStatistics,
        size: int,
        parent_of: NDArray[np.intp] | None = None,
    ) -> None:
        self.statistics = statistics
        self.stemmer = statistics.stemmer
        self.understands = statistics.understands
        self.knows = statistics.knows
        self.terms = statistics.terms
        self._parent_of = parent_of
        self._size = size
        self._parts = parts
        self._stems = statistics.vocabulary.stems
        for part in parts:
            part.scales = field_scales(part.postings.lengths, statistics.averages)
        self._rarity = statistics.rarity
        self._name_rarity = self._find_name_rarity()
        self._impacts = lru_cache(_REMEMBERED_STEMS)(self._find_impacts)
        self._named = lru_cache(_REMEMBERED_STEMS)(self._find_named)

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        """Score every document; one without any of the words gets 0.

        Scores are relative to the best of the ``visible`` rows, by default of all; the other
        rows get 0.
        """
        totals = self._totals(query)
        if visible is not None:
            seen = visible
            if self._parent_of is not None:
                seen = np.bincount(self._parent_of[visible], minlength=self._size) > 0
            totals *= seen
        return Ranking(self._per_document(saturate(totals)))

    def _totals(self, query: Query) -> Vectors:
        totals = np.zeros(self._size, dtype=np.float32)
        for term in self.terms(query):
            rows, impacts = self._impacts(self._stems[term.stem])
            np.add.at(totals, rows, np.float32(term.weight) * impacts)
        return totals

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """The words in common, strongest first, each with its share of the match."""
        impacts = {term: self.impact(term, row) for term in self.terms(query)}
        total = sum(impacts.values())
        found = sorted((t for t in impacts if impacts[t] > 0), key=lambda t: -impacts[t])
        return tuple(f"{term.label} {impacts[term] / total:.0%}" for term in found)

    def name_coverage(self, query: Query) -> Vectors:
        """How much of each document's name the query says: float32 [n] in [0, 1].

        The share of the name's words, each counted by its rarity.
        """
        shares = np.zeros(self._size, dtype=np.float32)
        for term in self.terms(query):
            rows, share = self._named(self._stems[term.stem])
            np.add.at(shares, rows, np.float32(term.weight) * share)
        return self._per_document(np.minimum(shares, 1.0))

    def impact(self, term: Term, row: int) -> float:
        """Returns how much a term of the query adds to a document's BM25 score."""
        place = row if self._parent_of is None else int(self._parent_of[row])
        rows, impacts = self._impacts(self._stems[term.stem])
        return term.weight * float(impacts[rows == place].sum())

    def _find_named(self, stem: int) -> tuple[Rows, Vectors]:
        """Returns the rows whose names have a stem, and its share of each name."""
        rows = np.concatenate([part.rows_named(stem) for part in self._parts])
        return rows, self._rarity[stem] / self._name_rarity[rows]

    def _find_impacts(self, stem: int) -> tuple[Rows, Vectors]:
        """Returns the rows that have a stem, and how much it adds to the BM25 score of each."""
        found = [part.sums(stem) for part in self._parts]
        rows = np.concatenate([rows for rows, _ in found])
        tf = np.concatenate([sums for _, sums in found])
        return rows, (self._rarity[stem] * tf * (K1 + 1) / (tf + K1)).astype(np.float32)

    def _per_document(self, scores: Vectors) -> Vectors:
        return scores if self._parent_of is None else scores[self._parent_of]

    def _find_name_rarity(self) -> Vectors:
        """Returns the sum of the rarities of the stems of each document's name: float32 [n]."""
        total = np.zeros(self._size)
        for part in self._parts:
            rows, stems = part.rows[part.postings.name_places], part.postings.name_stems
            rows, stems = rows[rows >= 0], stems[rows >= 0]
            total += np.bincount(rows, weights=self._rarity[stems], minlength=self._size)
        return total.astype(np.float32)


def field_scales(lengths: Numbers, averages: NDArray[np.float64]) -> Vectors:
    """Returns one occurrence's weight / (1 − b + b · length / average): float32 [n, fields]."""
    averages = np.maximum(1.0, averages)
    weights = np.array([FIELD_WEIGHTS[field] for field in FIELDS])
    return (weights / (1 - B + B * lengths / averages)).astype(np.float32)
