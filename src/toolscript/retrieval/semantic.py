"""The semantic signal: how near a document's meaning is to the question's."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Encoder, Vectors
from toolscript.embedding.cache import CachedVector, EmbeddingCache
from toolscript.embedding.loader import LazyModel
from toolscript.errors import ModelError
from toolscript.index.flat import FlatIndex
from toolscript.retrieval.base import Corpus, Query, Ranking
from toolscript.retrieval.calibration import curve_of
from toolscript.text import words
from toolscript.types import SEPARATOR, Document

BATCH_DOCUMENTS = 64
"""Documents embedded between two looks at the index: small enough to search while indexing."""
QUERIES_REMEMBERED = 1024
TEXT_WEIGHTS = {"all": 0.4, "name": 0.3, "sentence": 0.3}
"""How much each of a document's texts counts in its vector."""


_FIRST_SENTENCE = re.compile(r"^.{3,300}?[.!?。](?=\s|$)", re.DOTALL)


def embedded_texts(document: Document) -> dict[str, str]:
    """What is embedded for a document: everything, its name alone, and its first sentence."""
    name = " ".join(words(document.name))
    title = f" ({document.title})" if document.title and document.title != document.name else ""
    called = f"{document.server} {name}{title}"
    sentence = _FIRST_SENTENCE.match(document.description)
    return {
        "all": f"{called}: {document.description}".strip(),
        "name": called,
        "sentence": (sentence[0] if sentence else document.description[:300]) or called,
    }


def document_vectors(encoder: Encoder, documents: list[Document]) -> Vectors:
    """One vector per document: float32 [n, dim], unit rows.

    The weighted mean of the vectors of its texts, at length 1 again. A long
    description drowns what the first sentence says; the mean keeps both, and a
    cosine with it is the weighted mean of the cosines, for the price of one.
    """
    texts = [embedded_texts(document) for document in documents]
    mean = sum(
        weight * encoder.documents([each[name] for each in texts])
        for name, weight in TEXT_WEIGHTS.items()
    )
    assert isinstance(mean, np.ndarray)  # noqa: S101 - there is at least one text
    return (mean / np.linalg.norm(mean, axis=1, keepdims=True)).astype(np.float32)


@dataclass(slots=True)
class Counters:
    """What the signal has done so far, for the statistics."""

    documents_embedded: int = 0
    documents_from_cache: int = 0
    queries_embedded: int = 0
    queries_remembered: int = 0


class SemanticSignal:
    """Cosine between the question's vector and each document's, calibrated per model.

    Vectors come from the cache where the document's digest matches, and are
    computed otherwise. One thread prepares; any number may rank.
    """

    name = "semantic"

    def __init__(self, model: LazyModel, cache: Callable[[], EmbeddingCache | None]) -> None:
        self.model = model
        self.counters = Counters()
        self._open_cache = cache
        self._vectors: dict[str, CachedVector] = {}
        self._queries = _QueryMemory(self.counters)

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        """Embed what is not known yet, a batch at a time, and keep the cache file in step."""
        encoder = self.model.get().encoder if len(corpus) else None
        if encoder is None:
            return
        cache = self._open_cache()
        stored = cache.load(encoder.name) if cache else {}
        self._take_over(corpus, stored)
        waiting = [document for document in corpus.documents if not self._known(document)]
        for start in range(0, len(waiting), BATCH_DOCUMENTS):
            try:
                self._embed(encoder, waiting[start : start + BATCH_DOCUMENTS])
            except ModelError as error:
                self.model.give_up(str(error))
                return
            yield max(0, len(waiting) - start - BATCH_DOCUMENTS)
        present = {document.server for document in corpus.documents}
        absent = _of_other_servers(stored | self._vectors, present)
        self._vectors = absent | {d.id: self._vectors[d.id] for d in corpus.documents}
        if cache and _digests(stored) != _digests(self._vectors):
            cache.save(encoder.name, self._vectors)

    def index(self, corpus: Corpus) -> "SemanticIndex":
        """The vectors known now; the rest is NaN."""
        known = [row for row, d in enumerate(corpus.documents) if self._known(d)]
        rows = [self._vectors[corpus.documents[row].id].vector for row in known]
        flat = FlatIndex(np.stack(rows)) if rows else None
        return SemanticIndex(
            self.model, self._queries, len(corpus), np.array(known, dtype=np.intp), flat
        )

    @property
    def embedded(self) -> int:
        """How many documents have a vector."""
        return len(self._vectors)

    def _known(self, document: Document) -> bool:
        entry = self._vectors.get(document.id)
        return entry is not None and entry.digest == document.digest

    def _take_over(self, corpus: Corpus, stored: dict[str, CachedVector]) -> None:
        for document in corpus.documents:
            entry = stored.get(document.id)
            if entry and entry.digest == document.digest and not self._known(document):
                self._vectors[document.id] = entry
                self.counters.documents_from_cache += 1

    def _embed(self, encoder: Encoder, documents: list[Document]) -> None:
        vectors = document_vectors(encoder, documents)
        for document, vector in zip(documents, vectors, strict=True):
            self._vectors[document.id] = CachedVector(document.digest, vector)
        self.counters.documents_embedded += len(documents)


def _of_other_servers(
    entries: dict[str, CachedVector], present: set[str]
) -> dict[str, CachedVector]:
    """The vectors of servers that are not there at all: not yet, or just now.

    A tool that its server no longer has is gone; a server that is away comes back.
    """
    return {
        identifier: entry
        for identifier, entry in entries.items()
        if SEPARATOR in identifier and identifier.partition(SEPARATOR)[0] not in present
    }


def _digests(entries: dict[str, CachedVector]) -> dict[str, str]:
    return {identifier: entry.digest for identifier, entry in entries.items()}


@dataclass(slots=True)
class _QueryMemory:
    """The latest questions' vectors, at most `QUERIES_REMEMBERED`."""

    counters: Counters
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _vectors: OrderedDict[str, Vectors] = field(default_factory=OrderedDict[str, Vectors])

    def vector(self, encoder: Encoder, text: str) -> Vectors:
        with self._lock:
            if text in self._vectors:
                self._vectors.move_to_end(text)
                self.counters.queries_remembered += 1
                return self._vectors[text]
        vector = encoder.query(text)
        with self._lock:
            self.counters.queries_embedded += 1
            self._vectors[text] = vector
            if len(self._vectors) > QUERIES_REMEMBERED:
                self._vectors.popitem(last=False)
        return vector


@dataclass(frozen=True, slots=True)
class SemanticIndex:
    """One corpus's vectors."""

    _model: LazyModel
    _queries: _QueryMemory
    _size: int
    _known: NDArray[np.intp]
    _flat: FlatIndex | None

    def rank(self, query: Query) -> Ranking:
        """See `SignalIndex.rank`."""
        loaded = self._model.get()
        if loaded.encoder is None:
            return Ranking.nothing(self._size, loaded.degraded)
        waiting = self._size - self._known.size
        silent = f"{waiting} of {self._size} tools are not embedded yet" if waiting else ""
        scores = np.full(self._size, np.nan, dtype=np.float32)
        if self._flat is not None:
            try:
                vector = self._queries.vector(loaded.encoder, query.text)
            except ModelError as error:
                return Ranking.nothing(self._size, self._model.give_up(str(error)).degraded)
            scores[self._known] = curve_of(loaded.encoder.model)(self._flat.cosines(vector))
        return Ranking(scores, loaded.degraded or silent)
