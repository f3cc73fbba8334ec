"""Builds, from the rows of candidates, the `IndexState` that the steps of a search read.

So the steps score candidates as they score a whole catalogue in memory: with each tool's words and
vector from its row, and the statistics of all tools from `IndexMemory`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolscript.graph.forecast import Forecast
from toolscript.graph.learning import Learning
from toolscript.postgres.candidate_rows import CandidateRow, document_of, vectors_of
from toolscript.postgres.candidate_selection import FoundNames, Reachable
from toolscript.postgres.index_records import token_ids_of
from toolscript.postgres.prepared_search import PreparedSearch
from toolscript.postgres.resident_index import IndexMemory
from toolscript.retrieval.base import Corpus, EmbeddingIndex, Mask
from toolscript.retrieval.capability import CapabilityIndex, CapabilityReader, Purpose
from toolscript.retrieval.lexical.bm25f import LexicalIndex, PostingsPart
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.lexical.postings import Postings
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.retrieval.trace import IndexState


class IndexStateBuilder:
    """Builds the states of searches. Any thread may ask.

    Args:
        semantic: Compares vectors; None if only words are compared.
        learning: What the graph has learned; None for nothing.
        capabilities: Tells what tools are for.
    """

    def __init__(
        self,
        semantic: SemanticSignal | None,
        learning: Learning | None,
        capabilities: CapabilityReader,
    ) -> None:
        self._semantic = semantic
        self._learning = learning
        self._capabilities = capabilities

    def build_without_rows(self, search: PreparedSearch) -> IndexState:
        """Returns what is known of all tools, and of no single one."""
        corpus, snapshot, semantic = Corpus(()), search.snapshot, None
        if search.vectors is not None:
            semantic = self._semantic_index(search.memory, corpus, ())
        return IndexState(
            corpus=corpus,
            lexical=LexicalIndex([], snapshot.statistics, 0),
            semantic=semantic,
            names=FoundNames((), {}),
            capabilities=CapabilityIndex(corpus, self._capabilities, []),
            is_action=snapshot.is_action,
            visibility=Reachable(np.empty(0, np.intp)),
            forecast=None,
            known=(),
        )

    def build(
        self,
        search: PreparedSearch,
        matches: Mapping[str, Mapping[int, NameMatch]],
        rows: Sequence[CandidateRow],
    ) -> IndexState:
        """Returns the candidates with everything that the steps of a search read.

        Args:
            search: What is searched.
            matches: By the text of a query, the numbers of the tools whose names it spells.
            rows: Those of the candidates, in any order.
        """
        memory, snapshot = search.memory, search.snapshot
        known = [(document_of(row), row) for row in rows]
        known.sort(key=lambda each: each[0].id)
        rows = [row for _, row in known]
        corpus = Corpus(document for document, _ in known)
        statistics = snapshot.statistics
        wanted = np.zeros(len(statistics.vocabulary.stems), np.bool_)
        for weights in search.weights:
            wanted[list(weights)] = True
        tokens = [token_ids_of(row.words, row.lengths) for row in rows]
        postings = Postings(tokens, statistics.vocabulary, wanted)
        part = PostingsPart(postings, np.arange(len(rows)))
        purposes = [
            Purpose(tuple(row.purpose.split("\n")) if row.purpose else (), executes=row.executes)
            for row in rows
        ]
        place = {row.number: number for number, row in enumerate(rows)}
        semantic, forecast = self._semantic_index(memory, corpus, rows), None
        if self._learning is not None:
            servers = [document.server for document in corpus.documents]
            vectors = semantic.vectors if semantic else None
            forecast = Forecast(
                self._learning.graph, corpus.ids, servers, vectors, total=snapshot.size
            )
        return IndexState(
            corpus=corpus,
            lexical=LexicalIndex([part], statistics, len(rows)),
            semantic=semantic,
            names=FoundNames.among(place, memory.names.impersonating, matches),
            capabilities=CapabilityIndex(corpus, self._capabilities, purposes),
            is_action=snapshot.is_action,
            visibility=Reachable(np.flatnonzero(search.requested[[row.number for row in rows]])),
            forecast=forecast,
            known=_KnownIds(memory, search.visible),
            degraded=f"index: {search.problem}" if search.problem else "",
        )

    def _semantic_index(
        self, memory: IndexMemory, corpus: Corpus, rows: Sequence[CandidateRow]
    ) -> EmbeddingIndex | None:
        if self._semantic is None:
            return None
        stored = [(place, row, row.vector) for place, row in enumerate(rows) if row.vector]
        if not stored:
            none = np.empty((0, 0), np.float32)
            return self._semantic.index_of(memory.model, corpus, none, np.empty(0, np.intp), None)
        vectors = vectors_of([vector for _, _, vector in stored])
        zero = bytes(2 * vectors.shape[1])
        # Rows of a server that were read at different times may have different means.
        servers = {(row.server, row.mean): row.mean or zero for _, row, _ in stored}
        places = {server: place for place, server in enumerate(servers)}
        context = ServerContext.among(
            memory.basis,
            vectors_of(list(servers.values())),
            np.array([places[row.server, row.mean] for _, row, _ in stored], np.intp),
            vectors,
        )
        known = np.array([place for place, _, _ in stored], np.intp)
        return self._semantic.index_of(memory.model, corpus, vectors, known, context)


@dataclass(frozen=True, slots=True)
class _KnownIds:
    """The ids of the tools that the caller may see."""

    memory: IndexMemory
    mask: Mask

    def __contains__(self, identifier: object) -> bool:
        return bool(self.memory.names.by_id(str(identifier), self.mask))
