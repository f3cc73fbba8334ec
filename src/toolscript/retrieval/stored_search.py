"""Searches a large catalogue: the candidates that its index finds, by the steps of every search.

The index is asked for the tools that may be best: those with the nearest vectors and the best
words for the question and for each of its subqueries, those that are named, used, or beside the
context in the graph. They become a small corpus with the statistics of the whole catalogue, so
that their scores are those that they have among all tools.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.errors import DatabaseUnavailableError
from toolscript.graph.forecast import Forecast
from toolscript.graph.learning import Learning
from toolscript.retrieval.base import (
    CandidateQuery,
    CatalogueStatistics,
    Corpus,
    Plan,
    Query,
    StemCounts,
    StoredCandidates,
    StoredTools,
)
from toolscript.retrieval.capability import CapabilityIndex, Purpose
from toolscript.retrieval.catalogue_analysis import CatalogueAnalyzer
from toolscript.retrieval.lexical.analyzer import FIELDS, Stemmer, TokenIds, Vocabulary
from toolscript.retrieval.lexical.bm25f import LexicalIndex, PostingsPart, WordStatistics
from toolscript.retrieval.lexical.name_matching import (
    MIN_SIMILARITY,
    NameIndex,
    NameLookups,
    look_alike_id,
    spelling_of,
)
from toolscript.retrieval.lexical.postings import Postings
from toolscript.retrieval.lexical.spelling import Spellings
from toolscript.retrieval.pipeline import plan
from toolscript.retrieval.profiles import SearchProfile
from toolscript.retrieval.semantic.semantic_index import SemanticIndex
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import Basis, ServerContext, originals
from toolscript.retrieval.subqueries import MIN_TOOLS
from toolscript.retrieval.trace import IndexState
from toolscript.retrieval.visibility import Visibility
from toolscript.text.words import separate_scripts, words
from toolscript.types import Document, SearchRequest

LISTED, LISTED_FOR_SUBQUERY = 120, 60
"""The number of candidates that each list has; twice as many as hits, if that is more."""


@dataclass(slots=True)
class StoredWords:
    """The words of a question, looked up in the catalogue: see `QuestionWords`."""

    store: StoredCandidates
    stemmer: Stemmer
    splits: bool
    """Whether questions are split."""
    counts: dict[str, StemCounts] = field(default_factory=dict[str, StemCounts])
    """The counts of stems; 0 for one that no tool has."""
    statistics: CatalogueStatistics | None = None

    @property
    def is_action(self) -> Callable[[str], bool] | None:
        """See `QuestionWords.is_action`."""
        return self._opens if self.splits else None

    def _opens(self, word: str) -> bool:
        return self._count(word).openings >= MIN_TOOLS

    def knows(self, word: str) -> bool:
        """See `QuestionWords.knows`."""
        return self._count(word).frequency > 0

    def _count(self, word: str) -> StemCounts:
        stem = self.stemmer(word)
        if stem not in self.counts:
            self.look_up([word])
        return self.counts[stem]

    def look_up(self, asked: Iterable[str]) -> CatalogueStatistics:
        """Looks words up, and returns the statistics."""
        stems = {self.stemmer(word) for word in asked} - self.counts.keys()
        if stems or self.statistics is None:
            self.statistics, found = self.store.counts(stems)
            self.counts |= dict.fromkeys(stems, StemCounts(0, 0)) | found
        return self.statistics


class StoredSearch:
    """Searches the catalogue of a store. Any thread may ask; one thread updates.

    Args:
        store: Has the index.
        semantic: Embeds questions and tools; None searches by words only.
        learning: The graph; None for none.
    """

    def __init__(
        self,
        store: StoredCandidates,
        semantic: SemanticSignal | None = None,
        learning: Learning | None = None,
    ) -> None:
        self.store = store
        self.semantic = semantic
        self.learning = learning
        self.analyzer = CatalogueAnalyzer(semantic)
        self.stemmer = self.analyzer.stemmer
        self.capabilities = self.analyzer.capabilities

    def update(
        self, documents: Iterable[Document], superseded: Callable[[], bool]
    ) -> Iterator[int]:
        """See `StoredCandidates.update`."""
        documents = list(documents)
        if self.learning is not None:
            ids = [document.id for document in documents]
            self.learning.set_corpus(ids, [document.server for document in documents], None)
        yield from self.store.update(documents, superseded, self.analyzer)

    def find(self, request: SearchRequest, profile: SearchProfile) -> tuple[Plan, IndexState]:
        """Returns the plan of a search, and the candidates with all that scores them.

        While the store does not answer there are none, and the state says so. Raises what
        `pipeline.plan` raises.
        """
        asked = StoredWords(self.store, self.stemmer, profile.subqueries)
        try:
            asked.look_up(words(separate_scripts(request.text)))
            made = plan(request, profile, asked)
            return made, self._state(made, asked)
        except DatabaseUnavailableError as error:
            return plan(request, profile, _NO_WORDS), self._no_candidates(f"index: {error}")

    def _state(self, plan: Plan, asked: StoredWords) -> IndexState:
        statistics = asked.look_up(w for query in plan.queries for w in query.content_words)
        lookups = NameLookups(asked.knows)
        lookups.match({query.original for query in plan.queries})
        unknown = {
            word
            for query in plan.queries
            for word in query.content_words
            if not asked.knows(word) and len(word) >= _LEAST_CORRECTED and word.isalpha()
        }
        near_words, near_names = list[str](), list[str]()
        if unknown or lookups.near:
            near_words, near_names = self.store.near(unknown, lookups.near)
            asked.look_up(near_words)
        spellings = Spellings(near_words)
        query_words = self._words_of(asked, spellings, statistics)
        vectors = self._vectors(plan, statistics)
        tools = self.store.find(
            CandidateQuery(
                statistics,
                plan.request,
                _limits(plan),
                vectors,
                tuple(_weights(query_words, query) for query in plan.queries),
                frozenset(lookups.exact | _alike(lookups.near, near_names) | _why(plan.request)),
                frozenset(self._neighbors(plan, statistics, vectors)),
                self.capabilities.wants_shell(plan.queries[0]),
            )
        )
        tools = self._with_others(plan, statistics, tools)
        return self._state_of(tools, asked, spellings, statistics)

    def _words_of(
        self,
        asked: StoredWords,
        spellings: Spellings,
        statistics: CatalogueStatistics,
        tools: StoredTools | None = None,
    ) -> WordStatistics:
        """Returns the statistics of the question's words, and of those of ``tools``."""
        frequencies = {stem: n.frequency for stem, n in asked.counts.items() if n.frequency}
        stems: dict[str, None] = dict.fromkeys(frequencies)
        if tools is not None:
            frequencies = tools.frequencies | frequencies
            for fields in tools.stems:
                stems |= dict.fromkeys(chain.from_iterable(fields))
        vocabulary = Vocabulary.of_stems(self.stemmer, stems)
        for word in spellings.words:
            _ = vocabulary[word]
        counts = (frequencies.get(stem, 0) for stem in vocabulary.stems)
        return WordStatistics(
            vocabulary,
            statistics.size,
            lengths=np.array(statistics.lengths or [0] * len(FIELDS), np.int64),
            frequencies=np.fromiter(counts, np.int64, len(vocabulary.stems)),
            word_counts=np.ones(len(vocabulary.words), np.int64),
            spellings=[spellings],
        )

    def _vectors(self, plan: Plan, statistics: CatalogueStatistics) -> Vectors | None:
        if self.semantic is None or plan.request.words_only or not statistics.model:
            return None
        vectors = self.semantic.query_vectors(statistics.model, plan.queries)
        is_other = vectors is not None and vectors.shape[1] != statistics.common.size
        return None if is_other else vectors

    def _neighbors(
        self, plan: Plan, statistics: CatalogueStatistics, vectors: Vectors | None
    ) -> set[str]:
        """Returns the ids of tools beside the context, and of those used after such questions."""
        context, found = plan.request.context, {*plan.request.context}
        if self.learning is None:
            return found
        found.update(near for tool in context for near in self.learning.graph.neighbors(tool))
        if vectors is None:
            return found
        holder = plan.request.grant.holder
        usage = self.learning.usage.of(statistics.model, holder, others=True)
        used = {t: total for t, (_, total) in usage.items() if total.shape == vectors.shape[1:]}
        if used:
            cosines = (unit_rows(np.stack([*used.values()])) @ vectors.T).max(axis=1)
            nearest: list[int] = np.argsort(-cosines)[:LISTED].tolist()
            found.update(np.array([*used])[nearest].tolist())
        return found

    def _with_others(
        self, plan: Plan, statistics: CatalogueStatistics, tools: StoredTools
    ) -> StoredTools:
        """Adds the tools that candidates need, if these are asked for, or are named like."""
        ids = {document.id for document in tools.documents}
        needed, poses = set[str](), {look_alike_id(each.name) for each in tools.documents} - {""}
        if self.learning is not None and plan.request.needed:
            graph = self.learning.graph
            needed = {need.tool for tool in ids for need in graph.dependencies(tool)} - ids
        if not needed and not poses:
            return tools
        named, ids = frozenset(poses), frozenset(needed)
        query = CandidateQuery(statistics, plan.request, (LISTED,), None, (), named, ids)
        return _join(tools, self.store.find(query))

    def _state_of(
        self,
        tools: StoredTools,
        asked: StoredWords,
        spellings: Spellings,
        statistics: CatalogueStatistics,
    ) -> IndexState:
        order = sorted(range(len(tools.documents)), key=lambda row: tools.documents[row].id)
        tools = tools.subset(order)
        corpus = Corpus(tools.documents)
        word_statistics = self._words_of(asked, spellings, statistics, tools)
        numbers = word_statistics.vocabulary.stems.__getitem__
        tokens = [
            TokenIds(
                np.fromiter((numbers(s) for each in fields for s in each), np.int32),
                np.array([*map(len, fields)], np.int32),
            )
            for fields in tools.stems
        ]
        part = PostingsPart(
            Postings(tokens, word_statistics.vocabulary), np.arange(len(tools.documents))
        )
        lexical = LexicalIndex([part], word_statistics, len(tools.documents))
        purposes = [
            Purpose(capabilities, executes=executes)
            for capabilities, executes in zip(tools.capabilities, tools.executes, strict=True)
        ]
        semantic, forecast, known = self._index(corpus, tools, statistics), None, set(corpus.ids)
        if self.learning is not None:
            graph = self.learning.graph
            servers = [document.server for document in corpus.documents]
            vectors = semantic.vectors if semantic else None
            forecast = Forecast(graph, corpus.ids, servers, vectors, total=statistics.size)
            near = {other for tool in corpus.ids for other in graph.neighbors(tool)} - known
            known |= self.store.existing(near) if near else set()
        return IndexState(
            corpus=corpus,
            lexical=lexical,
            semantic=semantic,
            names=NameIndex(corpus, lexical),
            capabilities=CapabilityIndex(corpus, self.capabilities, purposes),
            is_action=asked.is_action,
            visibility=Visibility(corpus),
            forecast=forecast,
            known=known,
        )

    def _index(
        self, corpus: Corpus, tools: StoredTools, statistics: CatalogueStatistics
    ) -> SemanticIndex | None:
        if self.semantic is None:
            return None
        rows = np.flatnonzero(tools.vectors.any(axis=1))
        if not rows.size:
            none = np.empty((0, 0), np.float32)
            return self.semantic.index_of(statistics.model, corpus, none, rows, None)
        means = tools.means[rows]
        vectors = originals(tools.vectors[rows], means, statistics.common)
        basis = Basis(statistics.common, statistics.scale)
        context = ServerContext.among(basis, means, np.arange(rows.size), vectors)
        return self.semantic.index_of(statistics.model, corpus, vectors, rows, context)

    def _no_candidates(self, reason: str) -> IndexState:
        unasked = StoredWords(self.store, self.stemmer, splits=False)
        none = StoredTools.none(), unasked, Spellings([]), CatalogueStatistics.none()
        state = self._state_of(*none)
        return replace(state, semantic=None, degraded=reason)


class _NoWords:
    """No document has any word."""

    is_action = None

    def knows(self, word: str) -> bool:
        """See `QuestionWords.knows`."""
        del word
        return False


_NO_WORDS = _NoWords()
_LEAST_CORRECTED = 4
"""A shorter word may have no typo."""


def _limits(plan: Plan) -> tuple[int, ...]:
    if plan.limit is None:
        return (10 * LISTED,) * len(plan.queries)
    parts = len(plan.queries) - 1
    return (max(LISTED, 2 * plan.limit), *[max(LISTED_FOR_SUBQUERY, plan.limit)] * parts)


def _weights(statistics: WordStatistics, query: Query) -> dict[str, float]:
    """Returns the weights of a query's stems."""
    stems = statistics.vocabulary.stems
    return {
        term.stem: term.weight * float(statistics.rarity[stems[term.stem]])
        for term in statistics.terms(query)
    }


def _alike(asked: Iterable[str], names: Sequence[str]) -> set[str]:
    """Returns those names that are spelled nearly like one that was asked for."""
    spellings = Spellings(names)
    return {name for each in asked for name, _ in spellings.alike(each, MIN_SIMILARITY)}


def _why(request: SearchRequest) -> set[str]:
    return {spelling_of(request.why)} if request.why else set()


def _join(tools: StoredTools, more: StoredTools) -> StoredTools:
    """Returns the tools of both, each once."""
    known = {document.id for document in tools.documents}
    new = [row for row, document in enumerate(more.documents) if document.id not in known]
    more = more.subset(new)
    return StoredTools(
        tools.documents + more.documents,
        tools.stems + more.stems,
        tools.capabilities + more.capabilities,
        tools.executes + more.executes,
        np.concatenate([tools.vectors, more.vectors]),
        np.concatenate([tools.means, more.means]),
        tools.frequencies | more.frequencies,
    )
