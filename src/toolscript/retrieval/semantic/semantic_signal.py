"""The semantic signal: embeds documents and questions, and makes indexes of their vectors."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from toolscript.embedding.base import CachedVector, Encoder, VectorCache, Vectors
from toolscript.embedding.loader import LazyModel
from toolscript.errors import ModelError, UnreachableError, UnsuitableModelError
from toolscript.graph.usage import Usage
from toolscript.retrieval.base import Corpus
from toolscript.retrieval.semantic.calibration import Curves
from toolscript.retrieval.semantic.document_text import document_vectors
from toolscript.retrieval.semantic.semantic_index import Counters, QueryVectorCache, SemanticIndex
from toolscript.retrieval.semantic.vector_store import VectorStore
from toolscript.types import Document

log = logging.getLogger(__name__)
BATCH_DOCUMENTS = 64
"""Documents embedded between two looks at the index: small enough to search while indexing."""
SAVE_EVERY_S = 2.0
"""How much work a kill may cost while many documents are embedded."""


class SemanticSignal:
    """Cosine between the question's vector and each document's, calibrated per model.

    `VectorStore` says when a document's vector is computed again. One thread prepares; any number
    may rank.

    Args:
        model: Embeds documents and questions; loaded when it is first needed.
        cache: Opens the cache of the documents' vectors, or returns None for none.
        curves: The directory that keeps the calibration of models that are not in the table;
            None keeps it in memory only.
        save_every_s: How often vectors are saved while many are computed, in seconds; 0 saves
            after every batch, however long that takes.
        noun: The documents' name in messages, in the plural.
        usage: Which questions led to which tools: these move the vectors.
    """

    def __init__(  # noqa: PLR0913 - what bootstrap wires, each by its name
        self,
        model: LazyModel,
        cache: Callable[[], VectorCache | None],
        curves: Path | None = None,
        *,
        save_every_s: float = SAVE_EVERY_S,
        noun: str = "tools",
        usage: Usage | None = None,
    ) -> None:
        self.model = model
        self.counters = Counters()
        self.is_incomplete = False
        """Whether the last `prepare` could not reach the model for some documents."""
        self._noun = noun
        self._usage = usage
        self._save_every_s = save_every_s
        self._curves = Curves(curves)
        self._store = VectorStore(cache)
        self._queries = QueryVectorCache(self.counters)

    @property
    def version(self) -> int:
        """The number of changes of vectors so far: see `SemanticIndex.version`."""
        return self._store.version

    @property
    def embedded(self) -> int:
        """The number of documents that have a vector."""
        return len(self._store)

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        """Embed the documents of ``corpus`` without a vector in batches, and save the vectors.

        Vectors of the cache can be found while the model is still being loaded.

        Yields:
            The number of documents that still wait; after each step `index` has more vectors.
        """
        self.is_incomplete = False
        documents = corpus.documents
        if not documents:
            return
        identity = self.model.begin()
        if identity is not None and self._load(identity.name, documents):
            yield len(self._store.missing(documents))
        try:
            encoder = self.model.get().encoder
        except UnsuitableModelError:  # the statistics and every search say so
            return
        if encoder is None:
            return
        self._store.use(encoder.name, encoder.dim)  # an address may have another model by now
        if identity is None or identity.name != encoder.name:
            self._load(encoder.name, documents)
        try:
            yield from self._embed_missing(encoder, documents)
        except UnreachableError as error:
            log.warning("not all %s are embedded: %s", self._noun, error)
            self.is_incomplete = True
        except ModelError as error:
            self.model.give_up(str(error))
            return
        else:
            self._store.prune(documents)
        self._store.save(documents)

    def _load(self, model: str, documents: Sequence[Document]) -> int:
        self._store.use(model)
        count = self._store.load(documents)
        self.counters.documents_from_cache += count
        return count

    def _embed_missing(self, encoder: Encoder, documents: Sequence[Document]) -> Iterator[int]:
        missing = self._store.missing(documents)
        if missing:  # measured before the first search needs it
            self._curves.of(encoder)
        saved_at = time.monotonic()
        while missing:
            batch, missing = missing[:BATCH_DOCUMENTS], missing[BATCH_DOCUMENTS:]
            self._store.add(batch, document_vectors(encoder, batch))
            self.counters.documents_embedded += len(batch)
            yield len(missing)
            if time.monotonic() - saved_at > self._save_every_s:
                self.counters.documents_from_cache += self._store.exchange(documents)
                missing = self._store.missing(missing)
                saved_at = time.monotonic()

    def index(self, corpus: Corpus) -> SemanticIndex:
        """Returns an index of the vectors of ``corpus`` computed so far."""
        vectors = [self._store.vector(document) for document in corpus.documents]
        rows = [row for row, vector in enumerate(vectors) if vector is not None]
        present = [vector for vector in vectors if vector is not None]
        return SemanticIndex(
            model=self.model,
            encoder_name=self._store.model,
            queries=self._queries,
            curves=self._curves,
            corpus=corpus,
            rows=np.array(rows, np.intp),
            row_vectors=np.stack(present) if present else None,
            noun=self._noun,
            usage=self._usage,
            version=self.version,
        )

    def take(self, model: str, vectors: dict[str, CachedVector]) -> None:
        """Replaces all vectors by those of a ``model``, given by document id."""
        self._store.replace(model, vectors)

    def embed_query(self, text: str) -> tuple[str, Vectors] | None:
        """Returns the model's name and the vector of a ``text``; None if no model answers."""
        try:
            loaded = self.model.loaded
            encoder = loaded.encoder if loaded else None
            return None if encoder is None else (encoder.name, encoder.query(text))
        except ModelError:
            return None
