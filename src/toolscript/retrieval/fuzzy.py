"""The fuzzy signal: words in common, whatever their ending, typos forgiven.

BM25 over the fields of a document (Robertson & Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond", 2009, section 3.6: field weights inside
the term frequency), saturated onto [0, 1]. A word that no document has is
looked up among the words that some have, by edit distance.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import OSA

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import Corpus, Query, Ranking
from toolscript.text import words
from toolscript.types import Document

FIELD_WEIGHTS = {"server": 1.5, "tool": 2.5, "description": 1.0, "parameters": 1.0}
"""The seed's 0.3 : 0.5 : 0.2, with the description as the unit; parameters count like it."""
K1 = 1.2
B = 0.75
HALF = 8.0
"""The BM25 score that becomes 0.5, where it is the best of the corpus."""
SHARPNESS = 1.5
"""The power to which a document's share of the best score is raised."""
TYPO_DISCOUNT = 0.7
"""A word reached through one edit counts this much; through two, its square."""
STOP_WORDS = frozenset(
    """
    a an and are as at be by can could do for from how i in is it me my of on or please
    that the their this to was we what where which who will with would you your
    """.split()  # noqa: SIM905 - a list of words reads best as words
)


class Stemmer:
    """English stems, each word's computed once."""

    def __init__(self) -> None:
        stemmer: Any = snowballstemmer.stemmer("english")  # pyright: ignore[reportUnknownMemberType]
        self._stem: Callable[[str], str] = stemmer.stemWord
        self._known: dict[str, str] = {}

    def __call__(self, word: str) -> str:
        """The stem of a case-folded word."""
        known = self._known.get(word)
        if known is None:
            known = self._known[word] = self._stem(word)
        return known


_Rows = NDArray[np.int32]


class FuzzySignal:
    """BM25 over fields with typo-tolerant words. Has nothing to prepare."""

    name = "fuzzy"

    def __init__(self) -> None:
        self._stemmer = Stemmer()
        self._latest: tuple[Corpus, FuzzyIndex] | None = None

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        """See `Signal.prepare`."""
        del corpus
        return iter(())

    def index(self, corpus: Corpus) -> "FuzzyIndex":
        """See `Signal.index`. O(total words) for a corpus that is new, nothing for the same."""
        if self._latest is None or self._latest[0] is not corpus:
            self._latest = (corpus, FuzzyIndex(corpus, self._stemmer))
        return self._latest[1]


def saturated(totals: Vectors) -> Vectors:
    """BM25 scores float32 [n] onto [0, 1): (score / best) ^ `SHARPNESS` · best / (best + `HALF`).

    The best document's score says how good the match is at all; the others'
    say how far behind they are, however long the question: saturating each by
    itself would make the upper ones of a long question alike.
    """
    best = float(totals.max(initial=0.0))
    if best <= 0:
        return totals
    return ((totals / best) ** SHARPNESS * (best / (best + HALF))).astype(np.float32)


@dataclass(frozen=True, slots=True)
class _Term:
    """A stem's documents and what each scores for it."""

    rows: _Rows
    impacts: Vectors


class FuzzyIndex:
    """An inverted index of stems."""

    def __init__(self, corpus: Corpus, stemmer: Stemmer) -> None:
        self.stemmer = stemmer
        self._size = len(corpus)
        self._vocabulary: dict[str, str] = {}
        self._terms = self._build([self._fields(document) for document in corpus.documents])
        self._spellings = list(self._vocabulary)

    def rank(self, query: Query) -> Ranking:
        """See `SignalIndex.rank`."""
        total = np.zeros(self._size, dtype=np.float32)
        for stem, weight in self.stems(query).items():
            term = self._terms[stem]
            total[term.rows] += weight * term.impacts
        return Ranking(saturated(total))

    def stems(self, query: Query) -> dict[str, float]:
        """The query's stems that the corpus has, each with its weight; typos repaired."""
        asked = [word for word in query.words if word not in STOP_WORDS] or query.words
        found: dict[str, float] = {}
        for word in dict.fromkeys(asked):
            for stem, weight in self._resolve(word):
                found[stem] = max(weight, found.get(stem, 0.0))
        return found

    def knows(self, word: str) -> bool:
        """Whether some document has this word, in whatever form."""
        return self.stemmer(word) in self._terms

    def _resolve(self, word: str) -> list[tuple[str, float]]:
        stem = self.stemmer(word)
        if stem in self._terms:
            return [(stem, 1.0)]
        return [(self._vocabulary[near], weight) for near, weight in self._nearest(word)]

    def _nearest(self, word: str) -> list[tuple[str, float]]:
        """The spellings fewest edits away, at most one edit per four letters."""
        allowed = min(2, len(word) // 4)
        if not allowed or not self._spellings or not word.isalpha():
            return []
        distances = process.cdist(
            [word], self._spellings, scorer=OSA.distance, score_cutoff=allowed, dtype=np.int32
        )[0]
        best = int(distances.min())
        if best > allowed:
            return []
        rows = np.flatnonzero(distances == best)
        return [(self._spellings[row], TYPO_DISCOUNT**best) for row in rows[:4]]

    def _fields(self, document: Document) -> dict[str, list[str]]:
        texts = {
            "server": document.server,
            "tool": f"{document.name} {document.title}",
            "description": document.description,
            "parameters": " ".join(document.parameters),
        }
        return {name: self._stems(text) for name, text in texts.items()}

    def _stems(self, text: str) -> list[str]:
        stems: list[str] = []
        for word in words(text):
            stem = self.stemmer(word)
            self._vocabulary.setdefault(word, stem)
            stems.append(stem)
        return stems

    def _build(self, documents: list[dict[str, list[str]]]) -> dict[str, _Term]:
        if not documents:
            return {}
        averages = {
            name: max(1.0, sum(len(fields[name]) for fields in documents) / len(documents))
            for name in FIELD_WEIGHTS
        }
        postings: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for row, fields in enumerate(documents):
            for stem, frequency in _weighted_frequencies(fields, averages).items():
                postings[stem].append((row, frequency))
        return {stem: _term(entries, len(documents)) for stem, entries in postings.items()}


def _weighted_frequencies(
    fields: dict[str, list[str]], averages: dict[str, float]
) -> dict[str, float]:
    """Per stem: Σ over fields of weight · tf / (1 − b + b · length / average length)."""
    frequencies: defaultdict[str, float] = defaultdict(float)
    for name, stems in fields.items():
        scale = FIELD_WEIGHTS[name] / (1 - B + B * len(stems) / averages[name])
        for stem, count in Counter(stems).items():
            frequencies[stem] += scale * count
    return frequencies


def _term(entries: list[tuple[int, float]], size: int) -> _Term:
    rows = np.array([row for row, _ in entries], dtype=np.int32)
    frequencies = np.array([frequency for _, frequency in entries], dtype=np.float32)
    rarity = math.log(1 + (size - len(entries) + 0.5) / (len(entries) + 0.5))
    impacts = rarity * frequencies * (K1 + 1) / (frequencies + K1)
    return _Term(rows, impacts.astype(np.float32))
