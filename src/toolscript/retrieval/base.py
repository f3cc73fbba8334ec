"""What signals work on (a corpus, a query, a ranking), and the protocol of the semantic one.

A signal is long-lived and learns (vectors, say); its index is what it makes of one
corpus: immutable, so that searches read it without a lock while the next one is made.
The engine has two: the lexical signal, and perhaps a semantic one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.text.words import STOP_WORDS, compact, words
from toolscript.types import Document

Rows: TypeAlias = NDArray[np.intp]
"""Row numbers of a corpus."""
Mask: TypeAlias = NDArray[np.bool_]
"""By row of a corpus, whether something holds: bool [n]."""


class Corpus:
    """The documents of one catalogue, sorted by id. Row numbers everywhere refer to this order."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = tuple(sorted(documents, key=lambda document: document.id))
        self.rows = {document.id: row for row, document in enumerate(self.documents)}

    def __len__(self) -> int:
        """How many documents."""
        return len(self.documents)

    @cached_property
    def parent_rows(self) -> Rows | None:
        """Each document's parent, by row; None where no document has one."""
        if not any(document.parent_id for document in self.documents):
            return None
        first: dict[str, int] = {}  # a parent's id sorts before those of its passages
        rows = (first.setdefault(d.parent_id or d.id, row) for row, d in enumerate(self.documents))
        return np.fromiter(rows, np.intp, len(self))


@dataclass(frozen=True)
class Query:
    """A question, taken apart once for all signals."""

    text: str
    subqueries: tuple[str, ...] = ()
    """The single wishes of a question that has several, in order."""
    parent: "Query | None" = None
    """The question that this one is a subquery of."""

    @cached_property
    def words(self) -> list[str]:
        """Case-folded words, in order."""
        return words(self.text)

    @cached_property
    def content_words(self) -> list[str]:
        """The different words that mean something; all of them where none does."""
        return list(dict.fromkeys(w for w in self.words if w not in STOP_WORDS)) or self.words

    @cached_property
    def compact(self) -> str:
        """Letters and digits only."""
        return compact(self.text)


@dataclass(frozen=True, slots=True)
class Ranking:
    """One signal's scores: float32 [len(corpus)] in [0, 1], NaN where it has nothing to say."""

    scores: Vectors
    degraded: str = ""
    """Why the signal did not answer, for all or for some documents; empty when it did."""

    @classmethod
    def unanswered(cls, size: int, reason: str) -> "Ranking":
        """The signal did not answer at all."""
        return cls(np.full(size, np.nan, dtype=np.float32), reason)


class EmbeddingIndex(Protocol):
    """The semantic signal's view of one corpus: immutable, safe to read from any thread."""

    @property
    def vectors(self) -> Vectors | None:
        """float32 [n, dim], unit rows, zero where a document has none; None without any."""
        ...

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        """Score every document; no candidate is left out before fusion.

        ``visible`` are the rows that the caller may see, None where these are all. The others
        get 0, or NaN, and do not move the scores of these.
        """
        ...

    def cosines(self, query: Query) -> Ranking:
        """Each document's own cosine with the query, in [-1, 1]: nothing is added to it.

        Raises `ModelError` where no model answers.
        """
        ...

    def understands(self, word: str) -> bool:
        """Whether the model can make anything of a word; false for gibberish."""
        ...

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """What a document's score rests on, strongest first, in words for people.

        May take longer than ranking: it is asked only where an explanation is wanted.
        """
        ...


class EmbeddingSignal(Protocol):
    """A signal that computes a vector for each document and keeps it."""

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        """Compute the vectors of a corpus in steps; yields how many documents still wait.

        After each step `index` knows more.
        """
        ...

    def index(self, corpus: Corpus) -> EmbeddingIndex:
        """What is known now, as an index over ``corpus``. Quick."""
        ...
