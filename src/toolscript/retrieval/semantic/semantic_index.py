"""The semantic index: the vectors of one corpus, and the score of each document for a question."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.loader import LazyModel
from toolscript.errors import ModelError, UnreachableError
from toolscript.graph.usage import Usage
from toolscript.retrieval.base import NOT_EMBEDDED, Corpus, Mask, Query, Ranking, Rows
from toolscript.retrieval.semantic.calibration import Curves
from toolscript.retrieval.semantic.document_text import embedding_inputs
from toolscript.retrieval.semantic.relevance_feedback import RelevanceFeedback
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.text.display import printable
from toolscript.types import Document

MAX_CACHED_QUERIES = 1024
_PART = 1024
"""The number of vectors that are compared with all parts of a question while they are in the
processor's cache."""
PARENT_SHARE = 0.5
"""The share of the parent's cosine in a passage's."""


@dataclass(slots=True)
class Counters:
    """Counts the signal's work, for the statistics."""

    documents_embedded: int = 0
    documents_from_cache: int = 0
    queries_embedded: int = 0
    queries_remembered: int = 0


@dataclass(slots=True)
class QueryVectorCache:
    """The vectors of the latest questions, at most `MAX_CACHED_QUERIES`. Thread-safe."""

    counters: Counters
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _vectors: OrderedDict[tuple[str, str, tuple[str, ...]], Vectors] = field(
        default_factory=OrderedDict[tuple[str, str, tuple[str, ...]], Vectors]
    )
    """The vectors of a question and its subqueries, by the encoder's name and their texts."""

    def vectors(self, encoder: Encoder, queries: Sequence[Query]) -> Vectors:
        """Returns the vectors of a question, its subqueries and meanings: float32 [queries, dim].

        A subquery's vector is the one that it has within its question. ``queries`` may lack the
        others. Raises `ModelError`.
        """
        question = queries[0]
        parts = 1 + len(question.subqueries)
        if len(queries) > parts:
            texts = [self.vectors(encoder, [meaning]) for meaning in queries[parts:]]
            return np.concatenate([self.vectors(encoder, queries[:parts]), *texts])
        key = encoder.name, question.text, question.subqueries
        with self._lock:
            if key in self._vectors:
                self._vectors.move_to_end(key)
                self.counters.queries_remembered += 1
                return self._vectors[key][: len(queries)]
        vectors = encoder.query_with_parts(question.text, question.subqueries)
        with self._lock:
            self.counters.queries_embedded += 1
            self._vectors[key] = vectors
            if len(self._vectors) > MAX_CACHED_QUERIES:
                self._vectors.popitem(last=False)
        return vectors[: len(queries)]


@dataclass(frozen=True, kw_only=True, eq=False)
class SemanticIndex:
    """The vectors of one corpus: immutable. Any thread may ask."""

    model: LazyModel
    encoder_name: str
    """The name of the encoder that made the vectors."""
    queries: QueryVectorCache
    curves: Curves
    corpus: Corpus
    rows: Rows
    """The rows of the corpus that have a vector."""
    row_vectors: Vectors | None
    """Their vectors: float32 [rows, dim], unit rows; None if there is none."""
    noun: str
    """The documents' name in messages, in the plural."""
    usage: Usage | None
    version: int = 0
    """The number of changes that the signal's vectors had gone through."""

    @cached_property
    def _parents(self) -> Rows | None:
        """The place in ``rows`` of each one's parent, or its own if the parent has no vector.

        None if no document is a passage.
        """
        if self.corpus.parent_rows is None:
            return None
        own = np.arange(self.rows.size)
        places = np.full(len(self.corpus), -1, np.intp)
        places[self.rows] = own
        parents = places[self.corpus.parent_rows[self.rows]]
        return np.where(parents >= 0, parents, own)

    @cached_property
    def _feedback(self) -> RelevanceFeedback | None:
        encoder = self.model.loaded and self.model.loaded.encoder
        if self.usage is None or self.row_vectors is None or not encoder:
            return None
        ids = [document.id for document in self._documents_with_vector]
        curve = self.curves.of(encoder)
        return RelevanceFeedback(self.usage, self.encoder_name, ids, self.row_vectors, curve)

    def rows_used(self, holder: str) -> frozenset[int]:
        """Returns the rows of the tools that a question has led the owner or this caller to."""
        places = self._feedback.places_used(holder) if self._feedback else ()
        return frozenset(self.rows[places].tolist()) if len(places) else frozenset()

    @cached_property
    def _server_context(self) -> ServerContext | None:
        """None for passages, which have their parents instead."""
        if self.row_vectors is None or self._parents is not None:
            return None
        return ServerContext.of(
            [document.server for document in self._documents_with_vector], self.row_vectors
        )

    @property
    def _documents_with_vector(self) -> list[Document]:
        """The documents that have a vector."""
        return [self.corpus.documents[int(row)] for row in self.rows]

    @property
    def vectors(self) -> Vectors | None:
        """Every document's vector: float32 [n, dim], zero if it has none; None without any."""
        if self.row_vectors is None or self.rows.size == len(self.corpus):
            return self.row_vectors
        vectors = np.zeros((len(self.corpus), self.row_vectors.shape[1]), dtype=np.float32)
        vectors[self.rows] = self.row_vectors
        return vectors

    def rank(self, query: Query, visible: Mask | None = None) -> Ranking:
        """Returns the ranking of one query: see `rank_all`."""
        return self.rank_all([query], visible)[0]

    def rank_all(
        self, queries: Sequence[Query], visible: Mask | None = None
    ) -> tuple[Ranking, ...]:
        """Scores every document for a question and each of its subqueries.

        Never waits for a download.

        Args:
            queries: The question, then perhaps its subqueries.
            visible: The rows that the caller may see, None for all. The others get 0, or NaN, and
                do not move the scores of these.
        """
        encoder, degraded = self._ready_encoder()
        try:
            if encoder is None or self.row_vectors is None:
                return self._no_answer(queries, degraded)
            questions = self.queries.vectors(encoder, queries)
            cosines = _products(questions, self.row_vectors)
            calibrated = [
                self._calibrate(encoder, vector, row, visible, query.holder)
                for query, vector, row in zip(queries, questions, cosines, strict=True)
            ]
        except UnreachableError as error:
            return self._no_answer(queries, f"searching without meaning: {error}")
        except ModelError as error:
            return self._no_answer(queries, self.model.give_up(str(error)).degraded)
        return tuple(Ranking(self._by_row(scores), degraded) for scores in calibrated)

    def _ready_encoder(self) -> tuple[Encoder | None, str]:
        """Returns the encoder if it can compare the vectors, and why some may not be compared."""
        loaded = self.model.loaded if self.row_vectors is None else self.model.get()
        encoder = loaded.encoder if loaded else None
        if loaded is not None and encoder is None:
            return None, loaded.degraded
        if encoder is None or self.row_vectors is None or encoder.name != self.encoder_name:
            return None, self._waiting(len(self.corpus))
        degraded = loaded.degraded if loaded else ""
        return encoder, degraded or self._waiting(len(self.corpus) - self.rows.size)

    def _no_answer(self, queries: Sequence[Query], reason: str) -> tuple[Ranking, ...]:
        return (Ranking.no_answer(len(self.corpus), reason),) * len(queries)

    def _by_row(self, scores: Vectors) -> Vectors:
        """Returns the scores of ``rows`` as those of all rows, NaN for the others."""
        every = np.full(len(self.corpus), np.nan, dtype=np.float32)
        every[self.rows] = scores
        return every

    def cosines(self, query: Query) -> Ranking:
        """Returns each document's own cosine with the query, in [-1, 1]: nothing is added to it.

        Waits for the model. Raises `ModelError` if none answers.
        """
        loaded = self.model.get()
        if loaded.encoder is None:
            raise ModelError(loaded.degraded)
        [vector] = self.queries.vectors(loaded.encoder, [query])
        if self.row_vectors is None or loaded.encoder.name != self.encoder_name:
            return Ranking.no_answer(len(self.corpus), "")
        return Ranking(self._by_row(self.row_vectors @ vector))

    def _calibrate(
        self,
        encoder: Encoder,
        vector: Vectors,
        cosines: Vectors,
        visible: Mask | None,
        holder: str,
    ) -> Vectors:
        """Returns scores: cosines with the parent's share, use and server, on the model's curve."""
        seen = None if visible is None else visible[self.rows]
        if self._parents is not None:
            share = np.float32(PARENT_SHARE)
            cosines = ((1 - share) * cosines + share * cosines[self._parents]).astype(np.float32)
        if self._feedback is not None:
            cosines = self._feedback.adjust(cosines, vector, seen, holder)
        if self._server_context is not None:
            cosines = self._server_context.apply_to(cosines, vector)
        scores = self.curves.of(encoder)(cosines)
        return scores if seen is None else scores * seen

    def _waiting(self, count: int) -> str:
        return f"{count} of {len(self.corpus)} {self.noun} {NOT_EMBEDDED}" if count else ""

    def understands(self, word: str) -> bool:
        """Whether the model can make anything of a word; false for gibberish."""
        encoder = self.model.loaded and self.model.loaded.encoder
        return bool(encoder and encoder.knows(word))

    def evidence(self, query: Query, row: int) -> tuple[str, ...]:
        """Returns the cosine of a document, and the nearest of its texts, in words for people.

        Takes longer than ranking: it embeds the texts.
        """
        loaded, places = self.model.loaded, np.flatnonzero(self.rows == row)
        encoder = loaded.encoder if loaded else None
        if encoder is None or self.row_vectors is None or not places.size:
            return ()
        if encoder.name != self.encoder_name:
            return ()
        try:
            [vector] = self.queries.vectors(encoder, [query])
            texts = embedding_inputs(self.corpus.documents[row])
            cosines = encoder.documents(list(texts.values())) @ vector
        except ModelError:
            return ()
        cosine = float((self.row_vectors @ vector)[places[0]])
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
