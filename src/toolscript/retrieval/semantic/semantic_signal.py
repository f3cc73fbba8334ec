"""The semantic signal: embeds documents, keeps their vectors, and makes indexes of them."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import CachedVector, Encoder, VectorCache, Vectors
from toolscript.embedding.loader import LazyModel
from toolscript.errors import DeviceError, ModelError, UnreachableError
from toolscript.graph.usage import Usage
from toolscript.retrieval.base import Corpus, Query, Rows
from toolscript.retrieval.semantic.calibration import Curves
from toolscript.retrieval.semantic.document_text import document_vectors
from toolscript.retrieval.semantic.semantic_index import Counters, QueryVectorCache, SemanticIndex
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.types import SEPARATOR, Document

log = logging.getLogger(__name__)
BATCH_DOCUMENTS = 64
"""Documents embedded between two looks at the index: small enough to search while indexing."""
SAVE_EVERY_S = 2.0
"""How much work a kill may cost while many documents are embedded."""


class SemanticSignal:
    """Cosine between the question's vector and each document's, calibrated per model.

    Vectors come from the cache where the document's digest matches, and are
    computed otherwise. One thread prepares; any number may rank.

    Args:
        model: Embeds documents and questions; loaded when it is first needed.
        cache: Opens the cache of the documents' vectors, or returns None for none.
        curves: The directory where the calibration of models that are not known beforehand
            is kept; None keeps it in memory only.
        save_every_s: How often vectors are saved while many are computed; 0 saves after every
            batch, however long that takes.
        noun: What the documents are, in the plural, for messages.
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
        self._noun = noun
        self._usage = usage
        self._save_every_s = save_every_s
        self._curves = Curves(curves)
        self.counters = Counters()
        self.cache = cache
        self._name = ""
        self._vectors: dict[str, CachedVector] = {}
        self._dim = 0
        """The vectors' length; 0 while that is not known."""
        self._looked_up: tuple[Corpus, list[Vectors | None], dict[str, Document]] | None = None
        """The vector of each document of the latest corpus, by row, and those that have none."""
        self._indexed: tuple[Corpus, SemanticIndex] | None = None
        """The latest index, until a vector changes."""
        self._queries = QueryVectorCache(self.counters)
        self.is_incomplete = False
        """See `EmbeddingSignal`."""

    def prepare(self, corpus: Corpus) -> Iterator[int]:
        """Embed the documents of ``corpus`` without a vector in batches, and save the vectors.

        Yields how many documents still wait. Vectors of the cache can be found while the
        model is still being loaded.
        """
        self.is_incomplete = False
        if not len(corpus):
            return
        identity = self.model.begin()
        if identity is not None and self._load(identity.name, corpus):
            yield len(self._missing(corpus))
        try:
            encoder = self.model.get().encoder
        except DeviceError:  # the statistics and every search say so
            return
        if encoder is None:
            return
        if encoder.name != self._name or self._dim not in {0, encoder.dim}:
            self.take(encoder.name, {})  # at an address there may be another model by now
        self._dim = encoder.dim
        if identity is None or identity.name != encoder.name:
            self._load(encoder.name, corpus)
        try:
            if self._missing(corpus):  # measured before the first search needs it
                self._curves.of(encoder)
            yield from self._embed_missing(encoder, corpus)
        except UnreachableError as error:
            log.warning("not all %s are embedded: %s", self._noun, error)
            self.is_incomplete = True
            self._save(corpus)
            return
        except ModelError as error:
            self.model.give_up(str(error))
            return
        self._drop_removed(corpus)
        self._save(corpus)

    def _load(self, name: str, corpus: Corpus) -> int:
        """Take the model's vectors from the cache; returns how many these are."""
        if name != self._name:
            self.take(name, {})
        cache, before = self.cache(), self.counters.documents_from_cache
        missing = self._missing(corpus)
        if cache and missing:
            self._take_over(missing, cache.load(name, _wanted(missing)))
        missing = self._missing(corpus)
        if cache and missing:
            self._take_over(missing, cache.load_from_other_caches(name, _wanted(missing)))
        return self.counters.documents_from_cache - before

    def _embed_missing(self, encoder: Encoder, corpus: Corpus) -> Iterator[int]:
        saved_at = time.monotonic()
        while missing := self._missing(corpus):
            self._embed(encoder, missing[:BATCH_DOCUMENTS])
            yield max(0, len(missing) - BATCH_DOCUMENTS)
            if time.monotonic() - saved_at > self._save_every_s:
                self._exchange(corpus)
                saved_at = time.monotonic()

    def _exchange(self, corpus: Corpus) -> None:
        """Save what is embedded so far, and load what other processes have embedded since."""
        cache = self.cache()
        if cache:
            missing, away = self._missing(corpus), _away(corpus)
            wanted = _wanted(missing)
            cache.save(self._name, self._vectors, lambda each: each in wanted or away(each))
            self._take_over(missing, cache.load(self._name, wanted))

    def _drop_removed(self, corpus: Corpus) -> None:
        """Drop the vectors of tools that are gone; those of servers that are away stay."""
        if len(self._vectors) == len(corpus) - len(self._missing(corpus)):
            return
        away = _away(corpus)
        self._vectors = {
            identifier: entry
            for identifier, entry in self._vectors.items()
            if identifier in corpus.rows or away(identifier)
        }

    def _save(self, corpus: Corpus) -> None:
        cache = self.cache()
        if cache:
            cache.save(self._name, self._vectors, keep=_away(corpus))

    def _missing(self, corpus: Corpus) -> list[Document]:
        return list(self._look_up(corpus)[1].values())

    def _look_up(self, corpus: Corpus) -> tuple[list[Vectors | None], dict[str, Document]]:
        """Returns the vector of each document, by row, and by id the documents without one."""
        known = self._looked_up
        if known is not None and known[0] is corpus:
            return known[1:]
        changed = None if known is None else corpus.changed_since(known[0])
        if known is None or changed is None:
            vectors = [self._vector(document) for document in corpus.documents]
            pairs = zip(corpus.documents, vectors, strict=True)
            missing = {document.id: document for document, vector in pairs if vector is None}
        else:
            vectors, missing = known[1].copy(), known[2].copy()
            for row in changed:
                document = corpus.documents[row]
                vectors[row] = self._vector(document)
                missing.pop(document.id, None)
                if vectors[row] is None:
                    missing[document.id] = document
        self._looked_up = corpus, vectors, missing
        return vectors, missing

    def _set(self, document: Document, entry: CachedVector) -> None:
        self._vectors[document.id] = entry
        self._indexed = None
        if self._looked_up is not None:
            corpus, vectors, missing = self._looked_up
            row = corpus.rows.get(document.id)
            if row is not None and corpus.documents[row].digest == entry.digest:
                vectors[row] = entry.vector
                missing.pop(document.id, None)

    def index(self, corpus: Corpus) -> SemanticIndex:
        """Returns the vectors of ``corpus`` computed by now; documents without one rank as NaN."""
        if self._indexed is not None and self._indexed[0] is corpus:
            return self._indexed[1]
        vectors, _ = self._look_up(corpus)
        known = [row for row, vector in enumerate(vectors) if vector is not None]
        rows = [vector for vector in vectors if vector is not None]
        index = SemanticIndex(
            self.model,
            self._name,
            self._queries,
            self._curves,
            corpus.documents,
            np.array(known, dtype=np.intp),
            _places(known, corpus),
            np.stack(rows) if rows else None,
            self._noun,
            self._usage,
        )
        self._indexed = corpus, index
        return index

    def vectors_of(self, documents: Sequence[Document]) -> tuple[str, dict[str, Vectors]]:
        """Returns the model's name, and by document id the vectors: float32 [dim], length 1.

        Takes them from the cache, embeds the others, and keeps none in memory. Only those are
        missing that cannot be embedded now.
        """
        corpus = Corpus(documents)
        for _ in self.prepare(corpus):
            pass
        model = self._name
        found = {document.id: self._vector(document) for document in documents}
        self.take(model, {})
        return model, {key: vector for key, vector in found.items() if vector is not None}

    def index_of(
        self,
        model: str,
        corpus: Corpus,
        vectors: Vectors,
        known: Rows,
        context: ServerContext | None,
    ) -> SemanticIndex:
        """Returns an index over vectors that are kept elsewhere.

        Args:
            model: Whose vectors they are.
            corpus: The documents.
            vectors: float32 [known, dim], unit rows.
            known: The rows that have a vector.
            context: What the tools that have one share with all tools; None without any.
        """
        return SemanticIndex(
            self.model,
            model,
            self._queries,
            self._curves,
            corpus.documents,
            known,
            None,
            vectors if known.size else None,
            self._noun,
            self._usage,
            context,
        )

    def query_vectors(self, model: str, queries: Sequence[Query]) -> Vectors | None:
        """Returns the vectors of questions, float32 [queries, dim]; None unless ``model`` answers.

        They are remembered for `SemanticIndex.rank`.
        """
        encoder = self.model.get().encoder
        if encoder is None or encoder.name != model:
            return None
        try:
            return np.stack([self._queries.vector(encoder, query) for query in queries])
        except ModelError:
            return None

    def calibrated(self, model: str, cosines: Vectors) -> Vectors | None:
        """Returns the scores of cosines: float32, of their shape; None unless ``model`` answers."""
        encoder = self.model.get().encoder
        if encoder is None or encoder.name != model:
            return None
        try:
            return self._curves.of(encoder)(cosines)
        except ModelError:
            return None

    def take(self, model: str, vectors: dict[str, CachedVector]) -> None:
        """Replace all vectors by these ``vectors`` of a ``model``, by document id."""
        self._name, self._vectors = model, vectors
        self._looked_up = self._indexed = None
        self._dim = next((each.vector.size for each in vectors.values()), 0)

    def embed_query(self, text: str) -> tuple[str, Vectors] | None:
        """Returns the model's name and the vector of a ``text``; None if no model answers."""
        try:
            loaded = self.model.loaded
            encoder = loaded.encoder if loaded else None
            return None if encoder is None else (encoder.name, encoder.query(text))
        except ModelError:
            return None

    @property
    def embedded(self) -> int:
        """How many documents have a vector."""
        return len(self._vectors)

    def _vector(self, document: Document) -> Vectors | None:
        entry = self._vectors.get(document.id)
        return entry.vector if entry is not None and entry.digest == document.digest else None

    def _take_over(self, missing: list[Document], stored: dict[str, CachedVector]) -> None:
        for document in missing:
            entry = stored.get(document.id)
            if entry is None or entry.digest != document.digest:
                continue
            self._dim = self._dim or entry.vector.size
            if entry.vector.size == self._dim:
                self._set(document, entry)
                self.counters.documents_from_cache += 1

    def _embed(self, encoder: Encoder, documents: list[Document]) -> None:
        vectors = document_vectors(encoder, documents)
        for document, vector in zip(documents, vectors, strict=True):
            self._set(document, CachedVector(document.digest, vector))
        self.counters.documents_embedded += len(documents)


def _places(known: list[int], corpus: Corpus) -> NDArray[np.intp] | None:
    """For each of the known rows the place among them of its parent; its own without that."""
    if corpus.parent_rows is None:
        return None
    places = np.full(len(corpus), -1, dtype=np.intp)
    places[known] = np.arange(len(known))
    found = places[corpus.parent_rows[known]]
    return np.where(found >= 0, found, np.arange(len(known)))


def _wanted(documents: list[Document]) -> dict[str, str]:
    """Id → digest."""
    return {document.id: document.digest for document in documents}


def _away(corpus: Corpus) -> Callable[[str], bool]:
    """Whether a vector is of a server that is not there at all: not yet, or just now.

    A tool that its server no longer has is gone; a server that is away comes back.
    """
    present = {document.server for document in corpus.documents}

    def away(identifier: str) -> bool:
        return SEPARATOR in identifier and identifier.partition(SEPARATOR)[0] not in present

    return away
