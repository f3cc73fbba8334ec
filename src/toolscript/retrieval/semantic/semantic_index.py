"""The semantic index: one corpus' vectors, and the score of each document for a question."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.loader import LazyModel
from toolscript.errors import ModelError, UnreachableError
from toolscript.graph.usage import Usage
from toolscript.retrieval.base import Mask, Query, Ranking
from toolscript.retrieval.semantic.calibration import Curves
from toolscript.retrieval.semantic.document_text import embedding_inputs
from toolscript.retrieval.semantic.relevance_feedback import RelevanceFeedback
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.text.display import printable
from toolscript.types import Document

MAX_CACHED_QUERIES = 1024
_PART = 1024
"""So many vectors are compared with each part of a question while they are in the cache."""
_LATEST = 8
"""For so many questions the cosines are kept, until their parts are ranked too."""
PARENT_SHARE = 0.5
"""The share of the parent's cosine in a passage's."""


@dataclass(slots=True)
class Counters:
    """What the signal has done so far, for the statistics."""

    documents_embedded: int = 0
    documents_from_cache: int = 0
    queries_embedded: int = 0
    queries_remembered: int = 0


@dataclass(slots=True)
class QueryVectorCache:
    """The vectors of the latest questions, at most `MAX_CACHED_QUERIES`."""

    counters: Counters
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _vectors: OrderedDict[tuple[str, str, tuple[str, ...]], Vectors] = field(
        default_factory=OrderedDict[tuple[str, str, tuple[str, ...]], Vectors]
    )
    """By the encoder's name, the text and its subqueries: float32 [1 + subqueries, dim]."""

    def vector(self, encoder: Encoder, query: Query) -> Vectors:
        """A query's vector; a subquery's is the one that it has within its question."""
        rows, place = self.with_parts(encoder, query)
        return rows[place]

    def with_parts(self, encoder: Encoder, query: Query) -> tuple[Vectors, int]:
        """The vectors of a query's whole question and its subqueries, and which is the query's."""
        if query.parent:
            place = 1 + query.parent.subqueries.index(query.text)
            return self._rows(encoder, query.parent), place
        return self._rows(encoder, query), 0

    def _rows(self, encoder: Encoder, query: Query) -> Vectors:
        key = encoder.name, query.text, query.subqueries
        with self._lock:
            if key in self._vectors:
                self._vectors.move_to_end(key)
                self.counters.queries_remembered += 1
                return self._vectors[key]
        rows = encoder.query_with_parts(query.text, query.subqueries)
        with self._lock:
            self.counters.queries_embedded += 1
            self._vectors[key] = rows
            if len(self._vectors) > MAX_CACHED_QUERIES:
                self._vectors.popitem(last=False)
        return rows


@dataclass(frozen=True)
class SemanticIndex:
    """One corpus's vectors."""

    _model: LazyModel
    _name: str
    _queries: QueryVectorCache
    _curves: Curves
    _documents: Sequence[Document]
    _known: NDArray[np.intp]
    _parents: NDArray[np.intp] | None
    """For each of the known the place among them of its parent, or its own without one."""
    _rows: Vectors | None
    """The vectors of the known: float32 [known, dim], unit rows; none if none is known."""
    _noun: str = "tools"
    """What the documents are, for messages."""
    _usage: Usage | None = None
    _given: ServerContext | None = None
    """The servers' context if these are only some of their tools."""
    _latest: list[tuple[Vectors, Vectors]] = field(default_factory=list[tuple[Vectors, Vectors]])
    """The vectors of the latest questions with their parts, and the cosines of each."""

    @cached_property
    def _feedback(self) -> RelevanceFeedback | None:
        encoder = self._model.loaded and self._model.loaded.encoder
        if self._usage is None or self._rows is None or not encoder:
            return None
        known: Sequence[Document] = self._documents
        if len(known) != self._known.size:
            known = [known[int(row)] for row in self._known]
        curve = self._curves.of(encoder)
        return RelevanceFeedback(self._usage, self._name, known, self._rows, curve)

    @cached_property
    def _context(self) -> ServerContext | None:
        """None for passages, which have their parents instead."""
        if self._rows is None or self._parents is not None or self._given is not None:
            return self._given
        return ServerContext.of(
            [self._documents[int(row)].server for row in self._known], self._rows
        )

    @property
    def vectors(self) -> Vectors | None:
        """Every document's vector: float32 [n, dim], zero if there is none; None without any."""
        if self._rows is None or self._known.size == len(self._documents):
            return self._rows
        vectors = np.zeros((len(self._documents), self._rows.shape[1]), dtype=np.float32)
        vectors[self._known] = self._rows
        return vectors

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        """See `EmbeddingIndex.rank`. Never waits for a download."""
        size = len(self._documents)
        loaded = self._model.loaded if self._rows is None else self._model.get()
        encoder = loaded.encoder if loaded else None
        if loaded is not None and encoder is None:
            return Ranking.unanswered(size, loaded.degraded)
        if loaded is None or encoder is None or self._rows is None or encoder.name != self._name:
            return Ranking.unanswered(size, self._waiting(size))
        try:
            questions, place = self._queries.with_parts(encoder, query)
            scores = np.full(size, np.nan, dtype=np.float32)
            seen = None if visible is None else visible[self._known]
            cosines = self._cosines(questions, self._rows)[place]
            found = self._calibrated(encoder, questions[place], cosines, seen, query.holder)
            scores[self._known] = found if seen is None else found * seen
        except UnreachableError as error:
            return Ranking.unanswered(size, f"searching without meaning: {error}")
        except ModelError as error:
            return Ranking.unanswered(size, self._model.give_up(str(error)).degraded)
        return Ranking(scores, loaded.degraded or self._waiting(size - self._known.size))

    def _cosines(self, questions: Vectors, rows: Vectors) -> Vectors:
        """Returns the cosines of a question and its parts: float32 [questions, known].

        They are computed for the first of them, since reading the rows takes most of the time.
        """
        for asked, cosines in self._latest:
            if asked is questions:
                return cosines
        cosines = _products(questions, rows)
        self._latest[:] = [*self._latest, (questions, cosines)][-_LATEST:]
        return cosines

    def cosines(self, query: Query) -> Ranking:
        """See `EmbeddingIndex.cosines`. Waits for the model."""
        loaded = self._model.get()
        if loaded.encoder is None:
            raise ModelError(loaded.degraded)
        vector = self._queries.vector(loaded.encoder, query)
        scores = np.full(len(self._documents), np.nan, dtype=np.float32)
        if self._rows is not None and loaded.encoder.name == self._name:
            scores[self._known] = self._rows @ vector
        return Ranking(scores)

    def _calibrated(
        self,
        encoder: Encoder,
        vector: Vectors,
        cosines: Vectors,
        visible: Mask | None,
        holder: str,
    ) -> Vectors:
        """Scores from cosines: the parent's share, what use has taught, the server, the curve."""
        curve = self._curves.of(encoder)
        if self._parents is not None:
            share = np.float32(PARENT_SHARE)
            cosines = ((1 - share) * cosines + share * cosines[self._parents]).astype(np.float32)
        if self._feedback is not None:
            cosines = self._feedback.adjusted(cosines, vector, visible, holder)
        if self._context is not None:
            cosines = self._context.applied(cosines, vector)
        return curve(cosines)

    def _waiting(self, count: int) -> str:
        size = len(self._documents)
        return f"{count} of {size} {self._noun} are not embedded yet" if count else ""

    def understands(self, word: str) -> bool:
        """See `EmbeddingIndex.understands`."""
        encoder = self._model.loaded and self._model.loaded.encoder
        return bool(encoder and encoder.knows(word))

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """See `EmbeddingIndex.evidence`: the cosine, and the nearest of its texts."""
        loaded, known = self._model.loaded, np.flatnonzero(self._known == row)
        encoder = loaded.encoder if loaded else None
        if encoder is None or self._rows is None or not known.size or encoder.name != self._name:
            return ()
        try:
            vector = self._queries.vector(encoder, query)
            texts = embedding_inputs(self._documents[row])
            cosines = encoder.documents(list(texts.values())) @ vector
        except ModelError:
            return ()
        cosine = float((self._rows @ vector)[known[0]])
        name, text = list(texts.items())[int(np.argmax(cosines))]
        return (f"cosine {cosine:.2f}", f"nearest is its {name}: {printable(text, 80)}")


def _products(questions: Vectors, rows: Vectors) -> Vectors:
    """Returns the inner product of each question with each row: float32 [questions, rows].

    `_PART` rows are taken at a time, which stay in the processor's cache.
    """
    products = np.empty((len(questions), len(rows)), np.float32)
    for first in range(0, len(rows), _PART):
        part = slice(first, first + _PART)
        for question, row in zip(questions, products, strict=True):
            np.dot(rows[part], question, out=row[part])
    return products
