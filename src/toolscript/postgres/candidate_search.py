"""Finds the candidates of searches, in memory and in PostgreSQL, and reads what scores them.

Candidates are the tools with the nearest vectors and with the best words, for the question and for
each of its parts, the tools whose names the question spells, and those that the graph connects with
the context. Their signals are compared first, so that rows are read only of those that may be the
best.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from toolscript.embedding.base import Vectors, unit_rows
from toolscript.graph.learning import Learning
from toolscript.postgres.candidate_reader import CandidateReader
from toolscript.postgres.candidate_rows import CandidateRow, document_of
from toolscript.postgres.database import Database
from toolscript.postgres.fallback_rows import Documents, FallbackRows
from toolscript.postgres.grant_masks import GrantMasks
from toolscript.postgres.index_state_builder import IndexStateBuilder
from toolscript.postgres.posting_blocks import Weights
from toolscript.postgres.prepared_search import PreparedSearch
from toolscript.postgres.resident_index import IndexMemory, Snapshot
from toolscript.postgres.score_estimates import ALIKE, Kept, SignalScores, likely_best
from toolscript.postgres.word_search import WordLists, WordSearch
from toolscript.retrieval.base import Mask, Plan, Rows
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import Stemmer
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.trace import IndexState
from toolscript.text.words import compact

_NEAREST = 3
"""So many times as many are listed by their vectors as by their words: what the components tell of
a cosine is only about right. With twice as many one more of 144 first tens among a million tools
had another tool."""
_SEARCHES = 2
"""So many searches run at once for each connection to the database: some wait for nothing of it."""
_COSINE_MARGIN = 0.025
"""How much greater a cosine usually is at most than by components."""


@dataclass(frozen=True, slots=True)
class _Named:
    """The tools that are candidates whatever the lists say."""

    matches: dict[str, dict[int, NameMatch]]
    """By the text of a query, the tools whose names it spells."""
    groups: list[Rows]
    """The numbers of those whose names match the same query equally well, and which were asked for,
    or were not."""
    others: Rows
    """The numbers of other tools that are named, used, expected, or run commands."""

    @property
    def numbers(self) -> Rows:
        """The numbers of all of them."""
        return np.concatenate([*self.groups, self.others])


class CandidateSearch:
    """Finds the candidates of searches. Any event loop may ask.

    Args:
        database: Where the index is.
        stemmer: The stemmer of the engine.
        semantic: Embeds questions; None searches by words only.
        learning: What the graph has learned; None for nothing.
        listed: How many candidates are taken of each list. Rows are read of a quarter as many, or
            of three times as many as hits are wanted.
        documents: Returns the tools that are known while the database does not answer.
    """

    def __init__(  # noqa: PLR0913 - what a search needs, each by its name
        self,
        database: Database,
        stemmer: Stemmer,
        *,
        semantic: SemanticSignal | None,
        learning: Learning | None,
        listed: int,
        documents: Documents,
    ) -> None:
        self._database = database
        self._semantic = semantic
        self._learning = learning
        self._listed = listed
        self._capabilities = CapabilityReader(stemmer)
        self._grants = GrantMasks(database, documents)
        self._reader = CandidateReader(database, FallbackRows(documents, self._capabilities))
        self._states = IndexStateBuilder(semantic, learning, self._capabilities)
        self._words = WordSearch(database, listed)
        # Searches wait for the database in threads that no other work needs.
        self._searches = ThreadPoolExecutor(
            _SEARCHES * database.max_connections, thread_name_prefix="search"
        )
        self._comparisons = ThreadPoolExecutor(thread_name_prefix="nearest")
        self._usage: tuple[tuple[int, str, int, str], list[str], Vectors] | None = None
        """The version, model and length of what was learned, the tools, and their vectors."""

    async def find(
        self, plan: Plan, memory: IndexMemory, served: frozenset[str] | None
    ) -> IndexState:
        """Returns the candidates: see `Candidates.find`.

        While the database does not answer they are found by what is in memory, and the state says
        so.

        Args:
            plan: What the search is about to find out.
            memory: The index.
            served: The servers whose tools are found; None for all.
        """
        search = partial(self._search, plan, memory, served)
        return await asyncio.wrap_future(self._searches.submit(copy_context().run, search))

    def _search(self, plan: Plan, memory: IndexMemory, served: frozenset[str] | None) -> IndexState:
        # One state for the whole search, whatever changes in the meantime. What is folded after
        # this is in the blocks by then, and in the snapshot's `later` as well.
        snapshot = memory.snapshot
        visible, problem = self._grants.visible(memory, snapshot, plan.request, served)
        search = self._prepared(plan, memory, snapshot, visible)
        search.problem = problem
        # Vectors are compared while words are read and added up, and names looked up.
        comparison = self._comparisons.submit(self._nearest, search)
        words = self._best_words(search)
        named = self._named(search)
        rows = self._rows_of(search, self._likely(search, comparison.result(), words, named))
        needed = np.setdiff1d(self._needed(search, rows), [row.number for row in rows])
        if needed.size:
            rows += self._rows_of(search, needed)
        return self._states.build(search, named.matches, rows)

    def _best_words(self, search: PreparedSearch) -> WordLists:
        """Returns the tools with the question's words."""
        snapshot, weights = search.snapshot, search.weights
        postings, search.problem = self._words.read(snapshot, weights, search.problem)
        return self._words.best(snapshot, postings, weights, search.masks)

    def _nearest(self, search: PreparedSearch) -> list[Rows]:
        """Returns the tools whose vectors are nearest, a list for each query and mask."""
        if not search.memory.id or search.vectors is None:
            return []
        nearest = search.memory.components.nearest
        parts = [self._listed] * (len(search.vectors) - 1)
        limits = [_NEAREST * self._listed, *parts]
        lists = (nearest(search.vectors, mask, limits) for mask in search.masks)
        return [rows for each in lists for rows in each]

    def _likely(
        self, search: PreparedSearch, nearest: Sequence[Rows], words: WordLists, named: _Named
    ) -> Rows:
        """Returns the numbers of the candidates whose rows have to be read."""
        mask = search.visible
        lists = np.concatenate([*nearest, *words.lists, named.numbers]).astype(np.intp)
        numbers = np.unique(lists[lists < mask.size])
        numbers = numbers[mask[numbers]]
        request = search.plan.request
        wants_all = search.plan.limit is None or request.context or request.why
        if wants_all or not numbers.size:  # what a context raises is not estimated
            return numbers
        return self._best(search, numbers, words, named)

    def _best(self, search: PreparedSearch, numbers: Rows, words: WordLists, named: _Named) -> Rows:
        """Returns the numbers of the candidates that may be the best, or that are named.

        Of very many that are named alike, the best are taken.
        """
        memory, vectors = search.memory, search.vectors
        semantic: list[Vectors] = []
        if self._semantic is not None and vectors is not None:
            products = memory.components.products(vectors, numbers)
            for each in (products, products + _COSINE_MARGIN):
                cosines = memory.basis.rescale(each, vectors)
                scores = self._semantic.calibrated(memory.model, cosines)
                semantic += [] if scores is None else [scores]
        signals = SignalScores(words.sums(numbers), semantic)
        state = self._states.build_without_rows(search)
        kept = self._kept(search, numbers, named)
        best = numbers[likely_best(state, search.plan, signals, kept)]
        few = (group for group in named.groups if group.size <= ALIKE)
        return np.unique(np.concatenate([best, *few, named.others]))

    def _row_count(self, plan: Plan) -> int:
        """Returns of how many of the best candidates the rows are read."""
        return max(self._listed // 4, 3 * (plan.limit or 0))

    def _kept(self, search: PreparedSearch, numbers: Rows, named: _Named) -> Kept:
        """Returns which of some candidates have to be kept."""
        kept = Kept(
            self._row_count(search.plan),
            [mask[numbers] for mask in search.masks],
            [np.isin(numbers, group) for group in named.groups if group.size > ALIKE],
        )
        if search.executors is None:
            return kept
        others = search.requested[numbers] & ~search.executors[numbers]
        dedicated = [
            others & search.snapshot.has_capability(numbers, each.name)
            for each in self._capabilities.wanted(search.plan.queries[0])
            if each.shell
        ]
        return replace(kept, others=others, dedicated=dedicated)

    def _rows_of(self, search: PreparedSearch, numbers: Rows) -> list[CandidateRow]:
        """Returns the rows of those of some tools that the caller may find."""
        mask = search.visible
        numbers = numbers[numbers < mask.size]
        visible: list[int] = numbers[mask[numbers]].tolist()
        memory, snapshot, problem = search.memory, search.snapshot, search.problem
        rows, search.problem = self._reader.read(memory, snapshot, visible, problem)
        return rows

    def _prepared(
        self,
        plan: Plan,
        memory: IndexMemory,
        snapshot: Snapshot,
        visible: Mask,
    ) -> PreparedSearch:
        """Returns what is known of a search without the database."""
        request, requested = plan.request, visible
        if request.servers:
            numbers = [memory.server_numbers.get(name, -1) for name in request.servers]
            requested = visible & np.isin(snapshot.server, numbers)
        vectors = None
        if self._semantic is not None and not request.words_only:
            vectors = self._semantic.query_vectors(memory.model, plan.queries)
        if vectors is not None and vectors.shape[1] != memory.basis.common.size:
            vectors = None  # another model under the same name
        statistics = snapshot.statistics
        stems = statistics.vocabulary.stems
        weights: list[Weights] = [
            {
                stems[term.stem]: term.weight * float(statistics.rarity[stems[term.stem]])
                for term in statistics.terms(each)
            }
            for each in plan.queries
        ]
        executors = self._executors(plan, snapshot, requested)
        return PreparedSearch(
            plan, memory, snapshot, visible, requested, vectors, weights, executors
        )

    def _named(self, search: PreparedSearch) -> _Named:
        """Returns the tools that are candidates whatever the lists say."""
        memory, mask, request = search.memory, search.visible, search.plan.request
        names = memory.names
        texts = dict.fromkeys(each.original for each in search.plan.queries)
        matches = names.match(texts, mask)
        groups: defaultdict[tuple[str, NameMatch, bool], list[int]] = defaultdict(list)
        for text, each in matches.items():
            for number, match in each.items():
                groups[text, match, bool(search.requested[number])].append(number)
        found: set[int] = set()
        used = self._used(memory.model, search.vectors, request.grant.holder)
        for identifier in (*self._beside(request.context), *used):
            found.update(names.by_id(identifier, mask))
        if request.why:
            found.update(names.spelled(compact(request.why), mask))
        if search.executors is not None:  # a shell is raised even if no signal finds one
            whole = request.context or search.plan.limit is None
            shown = self._listed if whole else self._row_count(search.plan)
            found.update(np.flatnonzero(search.executors)[:shown].tolist())
        others = np.fromiter(found, np.intp, len(found))
        return _Named(matches, [np.array(each, np.intp) for each in groups.values()], others)

    def _executors(self, plan: Plan, snapshot: Snapshot, mask: Mask) -> Mask | None:
        """Returns the tools that run commands, where the question wants what a shell can do."""
        if not self._capabilities.wants_shell(plan.queries[0]):
            return None
        executors = np.zeros(mask.size, np.bool_)
        executors[snapshot.executors] = mask[snapshot.executors]
        return executors if executors.any() else None

    def _used(self, model: str, questions: Vectors | None, holder: str) -> list[str]:
        """Returns the tools that were used after questions most like these."""
        if self._learning is None or questions is None:
            return []
        usage, size = self._learning.usage, questions.shape[1]
        known, key = self._usage, (usage.version, model, size, holder)
        if known is None or known[0] != key:
            found = [
                (tool, total)
                for tool, (_, total) in usage.of(model, holder, others=True).items()
                if total.shape == (size,)
            ]
            sums = np.array([total for _, total in found], np.float32).reshape(-1, size)
            known = self._usage = key, [tool for tool, _ in found], unit_rows(sums)
        _, tools, asked = known
        if not tools:
            return []
        nearest = np.argsort(-(asked @ questions.T).max(axis=1))[: self._listed]
        return [tools[row] for row in nearest.tolist()]

    def _beside(self, context: Sequence[str]) -> Iterable[str]:
        """Returns the context's tools and those beside them in the graph."""
        if self._learning is None:
            return context
        graph = self._learning.graph
        return {*context, *(near for tool in context for near in graph.neighbors(tool))}

    def _needed(self, search: PreparedSearch, rows: Sequence[CandidateRow]) -> Rows:
        """Returns the tools that candidates need first, where these are asked for."""
        if self._learning is None or not search.plan.request.needed:
            return np.empty(0, np.intp)
        graph, names, mask = self._learning.graph, search.memory.names, search.visible
        ids = (document_of(row).id for row in rows)
        needed = (need.tool for each in ids for need in graph.dependencies(each))
        found = [number for tool in needed for number in names.by_id(tool, mask)]
        return np.array(found, np.intp)
