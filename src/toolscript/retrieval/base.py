"""The values that signals work on: a corpus, a query, a ranking.

A signal is long-lived and learns (vectors, say); it makes one index of each corpus,
which is immutable, so that searches read it without a lock while the next one is made.
The engine has two: the lexical signal, and perhaps a semantic one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.retrieval.profiles import SearchProfile
from toolscript.text.words import STOP_WORDS, compact, separate_scripts, words
from toolscript.types import EVERYTHING, Document, SearchRequest

Rows: TypeAlias = NDArray[np.intp]
"""Row numbers of a corpus."""
Mask: TypeAlias = NDArray[np.bool_]
"""Says of each row of a corpus whether something holds: bool [n]."""
T = TypeVar("T")

CHANGED_SHARE, MIN_CHANGES = 0.02, 64
"""If more documents than this share, and than this number, have changed, all are indexed anew."""


class Segment:
    """Documents that are indexed together: immutable, and shared by the corpora that have them."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = tuple(documents)
        self._derived: dict[object, Any] = {}

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each document in ``documents``, by its id."""
        return {document.id: place for place, document in enumerate(self.documents)}

    def place(self, document: Document) -> int:
        """Returns the place of a document; −1 if the segment lacks it, or has another version."""
        place = self.places.get(document.id, -1)
        if place < 0:
            return -1
        own = self.documents[place]
        return place if own is document or own == document else -1

    def derive(self, make: Callable[[tuple[Document, ...]], T]) -> T:
        """Returns the result of ``make`` for the documents; computed once. One thread at a time."""
        if make not in self._derived:
            self._derived[make] = make(self.documents)
        return self._derived[make]

    def forget(self, make: Callable[[tuple[Document, ...]], object]) -> None:
        """Drops the result of ``make``, which is not needed any more."""
        self._derived.pop(make, None)


@dataclass(frozen=True, slots=True)
class Part:
    """A segment as one corpus has it."""

    segment: Segment
    rows: Rows
    """The row in the corpus of each document of the segment; −1 if the corpus lacks it."""

    @property
    def missing_places(self) -> list[int]:
        """The places of the documents that the corpus lacks."""
        return np.flatnonzero(self.rows < 0).tolist()


class Corpus:
    """The documents of one catalogue, sorted by id. Row numbers everywhere refer to this order.

    Args:
        documents: All of them; no two have the same id.
        previous: The corpus that this one replaces. If few documents have changed since, they are
            a segment of their own, so that the others need not be indexed again.
    """

    def __init__(self, documents: Iterable[Document], previous: "Corpus | None" = None) -> None:
        self.documents: Sequence[Document] = tuple(sorted(documents, key=attrgetter("id")))
        parts = None if previous is None else self._parts_since(previous)
        whole = Part(Segment(self.documents), np.arange(len(self.documents)))
        self.parts: tuple[Part, ...] = parts or (whole,)
        """The segments that have the documents: the first has most, a second perhaps a few."""

    @cached_property
    def ids(self) -> list[str]:
        """The documents' ids, by row."""
        return [document.id for document in self.documents]

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each document, by its id."""
        return {identifier: row for row, identifier in enumerate(self.ids)}

    def _parts_since(self, previous: "Corpus") -> tuple[Part, Part] | None:
        """Returns the former first segment and one of the changes; None if these are many."""
        former = previous.parts[0].segment
        places = np.fromiter(map(former.place, self.documents), np.intp, len(self.documents))
        rows = np.full(len(former.documents), -1, dtype=np.intp)
        same, changed = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        rows[places[same]] = same
        changes = changed.size + len(former.documents) - same.size
        if changes > max(MIN_CHANGES, CHANGED_SHARE * len(former.documents)):
            return None
        segment = Segment([self.documents[row] for row in changed.tolist()])
        return Part(former, rows), Part(segment, changed)

    def __len__(self) -> int:
        """How many documents."""
        return len(self.documents)

    @cached_property
    def parent_rows(self) -> Rows | None:
        """Each document's parent, by row; None if no document has one."""
        if not any(map(attrgetter("parent_id"), self.documents)):
            return None
        first: dict[str, int] = {}  # a parent's id sorts before those of its passages
        rows = (first.setdefault(d.parent_id or d.id, row) for row, d in enumerate(self.documents))
        return np.fromiter(rows, np.intp, len(self))


class DocumentMemo(Generic[T]):
    """Remembers one result for each document, until it changes. One thread at a time."""

    def __init__(self, make: Callable[[Document], T]) -> None:
        self._make = make
        self._known: dict[str, tuple[Document, T]] = {}
        self._most = 0

    def of(self, documents: Sequence[Document]) -> list[T]:
        """Returns the result for each document; forgets the others if these are most."""
        known, made = self._known, dict[str, tuple[Document, T]]()
        for each in documents:
            former = known.get(each.id)
            is_same = former is not None and (former[0] is each or former[0] == each)
            made[each.id] = former if former and is_same else (each, self._make(each))
        if 2 * len(made) >= len(known) or len(known) > 2 * self._most + MIN_CHANGES:
            self._known, self._most = made, len(made)
        else:
            known.update(made)
        return [value for _, value in made.values()]


@dataclass(frozen=True)
class Query:
    """A question, taken apart once for all signals."""

    text: str
    subqueries: tuple[str, ...] = ()
    """The single wishes of a question that has several, in order."""
    holder: str = EVERYTHING.holder
    """Who asks, whose own uses count."""
    written: str = ""
    """The question as its caller wrote it, if that has abbreviations."""
    readings: tuple[tuple[str, str], ...] = ()
    """The abbreviations as they were written, each with its long form."""
    meanings: tuple[str, ...] = ()
    """The readings of everyday expressions: see `everyday_phrases`."""

    @property
    def original(self) -> str:
        """The text as it was asked."""
        return self.written or self.text

    @cached_property
    def words(self) -> list[str]:
        """Case-folded words, in order."""
        return words(separate_scripts(self.text))

    @cached_property
    def content_words(self) -> list[str]:
        """The different words that mean something; all words if none does."""
        return list(dict.fromkeys(w for w in self.words if w not in STOP_WORDS)) or self.words

    @cached_property
    def compact(self) -> str:
        """Letters and digits only."""
        return compact(self.text)


@dataclass(frozen=True, slots=True)
class Plan:
    """A search as it is planned, before it looks at any document."""

    request: SearchRequest
    profile: SearchProfile
    queries: tuple[Query, ...]
    """The question, then each of its subqueries, then each of its meanings."""
    limit: int | None
    """The most hits to return; None returns all."""
    threshold: float


NOT_EMBEDDED = "are not embedded yet"
"""Ends the reason of a signal that will soon have an answer."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """One signal's scores: float32 [len(corpus)] in [0, 1], NaN if it has nothing to say."""

    scores: Vectors
    degraded: str = ""
    """Why the signal did not answer, for all or for some documents; empty when it did."""

    @classmethod
    def no_answer(cls, size: int, reason: str) -> "Ranking":
        """Returns the ranking of a signal that did not answer at all."""
        return cls(np.full(size, np.nan, dtype=np.float32), reason)
