"""Takes the tools of a large catalogue apart, into the rows of its index."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.retrieval.base import AnalyzedTool, CatalogueStatistics
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import FIELDS, Stemmer, field_words
from toolscript.retrieval.lexical.bm25f import field_scales, saturate_frequency
from toolscript.retrieval.lexical.name_matching import spelling_of
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import Basis, ServerContext, common_of
from toolscript.retrieval.subqueries import SHORTEST_ACTION
from toolscript.text.words import STOP_WORDS
from toolscript.types import Document

SAMPLE, STRIDE = 10_000, 16
"""The averages are those of so many tools, and of one in so many of the further ones."""
_NAME, _DESCRIPTION = FIELDS.index("name"), FIELDS.index("description")


Batch: TypeAlias = tuple[Sequence[Document], Vectors]
"""All tools of one or several servers, and their vectors: float32 [n, dim], zeros for none."""


class CatalogueAnalyzer:
    """Takes tools apart. One thread at a time.

    Args:
        semantic: Embeds tools; None stores no vectors.
    """

    def __init__(self, semantic: SemanticSignal | None = None) -> None:
        self.stemmer = Stemmer()
        self.capabilities = CapabilityReader(self.stemmer)
        self._semantic = semantic
        self._unlisted = frozenset(map(self.stemmer, STOP_WORDS))

    def __call__(
        self, documents: Sequence[Document], statistics: CatalogueStatistics
    ) -> list[AnalyzedTool]:
        """Returns the tools of a server, embedded by the model of the ``statistics``."""
        vectors = np.zeros((len(documents), statistics.common.size), np.float32)
        if self._semantic is not None and documents and statistics.model:
            model, embedded = self._semantic.vectors_of(documents)
            for row, document in enumerate(documents):
                if model == statistics.model and document.id in embedded:
                    vectors[row] = embedded[document.id]
        return self.analyze(documents, vectors, statistics)

    @property
    def model(self) -> str:
        """The name of the model that embeds tools; empty if none does. May wait for the model."""
        encoder = self._semantic and self._semantic.model.get().encoder
        return encoder.name if encoder else ""

    def embed(self, servers: Iterable[Sequence[Document]]) -> Iterator[Batch]:
        """Yields the tools of each server with their vectors."""
        encoder = self._semantic and self._semantic.model.get().encoder
        for tools in servers:
            vectors = np.zeros((len(tools), encoder.dim if encoder else 1), np.float32)
            known = self._semantic.vectors_of(tools)[1] if self._semantic and encoder else {}
            for row, tool in enumerate(tools):
                vectors[row] = known.get(tool.id, 0.0)
            yield tools, vectors

    def statistics(self, batches: Iterable[Batch], model: str | None = None) -> CatalogueStatistics:
        """Returns the statistics of all tools, those of words from a sample.

        Args:
            batches: The tools and their vectors.
            model: The name of the model that made the vectors; None for the analyzer's own.
        """
        total, embedded, size, sampled = np.zeros(1), 0, 0, 0
        lengths, sample = np.zeros(len(FIELDS), np.int64), list[Vectors]()
        for documents, vectors in batches:
            total = total + vectors.sum(axis=0, dtype=np.float64)
            embedded += int(vectors.any(axis=1).sum())
            numbers = np.arange(size, size + len(documents))
            places = np.flatnonzero((numbers < SAMPLE) | (numbers % STRIDE == 0)).tolist()
            for place in places:
                lengths += [*map(len, field_words(documents[place]))]
            sample.append(vectors[places])
            sampled += len(places)
            size += len(documents)
        common = common_of(total / max(1, embedded))
        rows = np.concatenate(sample) if sample else common[None]
        distances = np.linalg.norm(rows[rows.any(axis=1)] - common, axis=1)
        return CatalogueStatistics(
            0,
            self.model if model is None else model,
            size,
            tuple((lengths * (size / max(1, sampled))).astype(int).tolist()),
            common,
            float(distances.mean()) if distances.size else 1.0,
        )

    def analyze(
        self, documents: Sequence[Document], vectors: Vectors, statistics: CatalogueStatistics
    ) -> list[AnalyzedTool]:
        """Returns tools with their vectors; all tools of a server are among them.

        Args:
            documents: The tools.
            vectors: float32 [n, dim], zeros if a tool has none.
            statistics: Those of the catalogue.
        """
        embedded = np.flatnonzero(vectors.any(axis=1))
        moved: dict[int, tuple[Vectors, Vectors]] = {}
        if embedded.size:
            basis = Basis(statistics.common, statistics.scale)
            servers = [documents[row].server for row in embedded.tolist()]
            context = ServerContext.of(servers, vectors[embedded], basis)
            means = context.means[context.server]
            pairs = zip(context.move(vectors[embedded]), means, strict=True)
            moved = dict(zip(embedded.tolist(), pairs, strict=True))
        fields = [field_words(document) for document in documents]
        lengths = np.array([[*map(len, each)] for each in fields], np.int32)
        averages = np.array(statistics.lengths) / max(1, statistics.size)
        scales = field_scales(lengths.reshape(-1, len(FIELDS)), averages)
        return [
            self._tool(document, words, weights, *moved.get(row, (None, None)))
            for row, (document, words, weights) in enumerate(
                zip(documents, fields, scales.tolist(), strict=True)
            )
        ]

    def _tool(
        self,
        document: Document,
        words: list[list[str]],
        scales: list[float],
        vector: Vectors | None,
        mean: Vectors | None,
    ) -> AnalyzedTool:
        stems = tuple(tuple(map(self.stemmer, field)) for field in words)
        counts: dict[str, float] = {}
        for field, scale in zip(stems, scales, strict=True):
            for stem in field:
                counts[stem] = counts.get(stem, 0.0) + scale
        impacts = saturate_frequency(np.array([*counts.values()], np.float32)).tolist()
        purpose = self.capabilities.purpose(document)
        return AnalyzedTool(
            document,
            spelling_of(document.name),
            spelling_of(document.server + document.name),
            stems,
            frozenset(word for field in words for word in field),
            tuple(
                stems[field][0]
                for field in (_NAME, _DESCRIPTION)
                if words[field] and len(words[field][0]) >= SHORTEST_ACTION
            ),
            {s: i for s, i in zip(counts, impacts, strict=True) if s not in self._unlisted},
            purpose.capabilities,
            purpose.executes,
            vector,
            mean,
        )
