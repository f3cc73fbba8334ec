"""Finds the candidates of one search in PostgreSQL, with all that scores them.

Candidates are the best of every signal, for the question and for each of its wishes: the nearest
vectors, the best words, the names that are spelled, and the tools beside those of the context.
They are scored by the same steps as a whole catalogue: with their own words and vectors, and with
the statistics of all tools, which memory has.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec
import numpy as np

from toolscript.cluster.candidate_rows import vectors_of
from toolscript.cluster.database import Database
from toolscript.cluster.driver import Connection
from toolscript.cluster.grant_filters import GrantFilters, ToolFilter, tool_filter
from toolscript.cluster.posting_blocks import PostingList, best_tools
from toolscript.cluster.posting_cache import PostingCache
from toolscript.cluster.resident_index import IndexMemory, Snapshot, token_ids_of
from toolscript.embedding.base import Vectors, unit_rows
from toolscript.graph.forecast import Forecast
from toolscript.graph.learning import Learning
from toolscript.retrieval.base import Corpus, EmbeddingIndex, Mask, Plan, Query
from toolscript.retrieval.candidate_selection import FoundNames, Reachable
from toolscript.retrieval.capability import CapabilityIndex, CapabilityReader, Purpose
from toolscript.retrieval.lexical.analyzer import Numbers, Stemmer
from toolscript.retrieval.lexical.bm25f import LexicalIndex, PostingsPart
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.lexical.postings import Postings
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.retrieval.trace import IndexState
from toolscript.text.words import compact
from toolscript.types import Document

WIDTH, WIDTH_OF_ALL = 800, 1600
"""How many vectors of the graph are looked at for a question, and for it and its parts together."""
_ROWS = """
select tool.number, document, words, lengths, purpose, executes, vector, server, mean
from toolscript.candidate_tool as tool join toolscript.candidate_server as of_tool
on of_tool.index_id = tool.index_id and of_tool.number = server
where tool.index_id = $1 and tool.number = any($2)
"""
_BLOCKS = """
select stem, tools, impacts from toolscript.candidate_posting
where index_id = $1 and stem = any($2)
"""
_NEAREST = """
select string_agg(int4send(number), ''::bytea) from (
select number from toolscript.candidate_vector_{index} {where}
order by {order} limit {limit}) as nearest
"""


@dataclass(slots=True)
class _Question:
    """What is known of one search before the database is asked."""

    plan: Plan
    memory: IndexMemory
    snapshot: Snapshot
    visible: ToolFilter
    asked: ToolFilter
    """Those of the servers that were asked for; the same where none was."""
    vectors: Vectors | None
    weights: list[dict[int, float]]
    """By query and stem, what an impact is multiplied with."""
    matches: dict[str, dict[int, NameMatch]]
    """By the text of a query, the tools whose names it spells."""
    extra: set[int]
    """Tools that are candidates whatever the lists say."""
    executors: ToolFilter | None
    """The tools that run commands, where they may be what is asked for."""

    @property
    def stems(self) -> set[int]:
        """The stems of all queries."""
        return {stem for weights in self.weights for stem in weights}

    @property
    def filters(self) -> list[ToolFilter]:
        """Of which tools lists are taken."""
        asked = [self.asked] if self.asked is not self.visible else []
        return [self.visible, *asked, *([self.executors] if self.executors else [])]


class CandidateSearch:
    """Finds the candidates of searches. Any event loop may ask.

    Args:
        database: Where the index is.
        stemmer: The stemmer of the engine.
        semantic: Embeds questions; None searches by words only.
        learning: What the graph has learned; None for nothing.
        listed: How many candidates are taken of each list.
        exact_up_to: Among so many granted tools the nearest are found by looking at each.
    """

    def __init__(  # noqa: PLR0913 - what a search needs, each by its name
        self,
        database: Database,
        stemmer: Stemmer,
        *,
        semantic: SemanticSignal | None,
        learning: Learning | None,
        listed: int,
        exact_up_to: int,
    ) -> None:
        self._database = database
        self._semantic = semantic
        self._learning = learning
        self._listed = listed
        self._capabilities = CapabilityReader(stemmer)
        self._filters = GrantFilters(database, exact_up_to)
        self._postings = PostingCache()
        self._usage: tuple[int, str, int, list[str], Vectors] | None = None
        """The version, model and length of what was learned, the tools, and their vectors."""

    async def find(
        self, plan: Plan, memory: IndexMemory, served: frozenset[str] | None
    ) -> IndexState:
        """Returns the candidates: see `Candidates.find`.

        Args:
            plan: What the search is about to find out.
            memory: The index.
            served: The servers whose tools are found; None for all.

        Raises:
            DatabaseUnavailableError: The database does not answer.
        """
        # One state for the whole search, whatever changes in the meantime. What is folded after
        # this is in the blocks by then, and in the snapshot's `later` as well.
        snapshot = memory.snapshot
        visible = await self._filters.visible(memory, snapshot, plan.request, served)
        question = await anyio.to_thread.run_sync(
            partial(self._asked, plan, memory, snapshot, visible)
        )
        # While the database compares vectors, the words are looked up here.
        nearest, rows = await asyncio.gather(self._nearest(question), self._said(question))
        rows += await self._missing(question, rows, nearest)
        rows += await self._missing(question, rows, self._needed(question, rows))
        return await anyio.to_thread.run_sync(partial(self._state, question, rows))

    async def _nearest(self, question: _Question) -> Numbers:
        """Returns the numbers of the tools whose vectors are nearest."""
        if not question.memory.id or question.vectors is None:
            return np.empty(0, np.int32)
        rows = await self._database.arun(partial(_nearest, question, self._listed))
        return np.frombuffer(b"".join(row[0] or b"" for row in rows), ">i4")

    async def _said(self, question: _Question) -> list[Any]:
        """Returns the rows of the tools that have the question's words, or are in it anyway."""
        postings = await self._read(question)
        numbers = await anyio.to_thread.run_sync(
            partial(_best_by_words, question, postings, self._listed)
        )
        return await self._missing(question, (), [*numbers, *question.extra])

    async def _read(self, question: _Question) -> dict[int, PostingList]:
        """Returns the posting lists of the question's stems."""
        stems, folds = question.stems, question.snapshot.folds
        found = self._postings.found(folds, stems)
        missing = sorted(stems - found.keys())
        if missing and question.memory.id:
            blocks: dict[int, list[tuple[bytes, bytes]]] = {stem: [] for stem in missing}
            for stem, *block in await self._fetched(_BLOCKS, question.memory.id, missing):
                blocks[stem].append(tuple(block))
            read = {stem: PostingList.joined(each) for stem, each in blocks.items()}
            self._postings.add(folds, read)
            found |= read
        return found

    async def _missing(
        self, question: _Question, rows: Sequence[Any], numbers: Iterable[int]
    ) -> list[Any]:
        """Returns the rows of those of some tools that are visible and not among ``rows``."""
        mask = question.visible.mask
        known = {row[0] for row in rows}
        wanted = {int(each) for each in numbers} - known
        missing = sorted(each for each in wanted if each < mask.size and mask[each])
        return await self._fetched(_ROWS, question.memory.id, missing) if missing else []

    async def _fetched(self, query: str, *arguments: object) -> list[Any]:
        return await self._database.arun(lambda connection: connection.fetch(query, *arguments))

    def _asked(
        self,
        plan: Plan,
        memory: IndexMemory,
        snapshot: Snapshot,
        visible: ToolFilter,
    ) -> _Question:
        """Returns what can be known of a search without the database."""
        request, mask = plan.request, visible.mask
        asked = visible
        if request.servers:
            numbers = [memory.server_numbers.get(name, -1) for name in request.servers]
            of_servers = mask & np.isin(snapshot.server, numbers)
            asked = tool_filter(snapshot, of_servers, self._filters.exact_up_to)
        vectors = self._semantic and self._semantic.query_vectors(memory.model, plan.queries)
        statistics = snapshot.statistics
        stems = statistics.vocabulary.stems
        weights = [
            {
                stems[term.stem]: term.weight * float(statistics.rarity[stems[term.stem]])
                for term in statistics.terms(query)
            }
            for query in plan.queries
        ]
        texts = dict.fromkeys(query.text for query in plan.queries)
        matches = {text: memory.names.match(Query(text), mask) for text in texts}
        extra = {number for found in matches.values() for number in found}
        for identifier in (*self._beside(request.context), *self._used(memory.model, vectors)):
            extra.update(memory.names.by_id(identifier, mask))
        if request.why:
            extra.update(memory.names.spelled(compact(request.why), mask))
        executors = self._executors(plan, snapshot, asked.mask)
        return _Question(
            plan, memory, snapshot, visible, asked, vectors, weights, matches, extra, executors
        )

    def _executors(self, plan: Plan, snapshot: Snapshot, mask: Mask) -> ToolFilter | None:
        """Returns the tools that run commands, where the question wants what a shell can do."""
        if not self._capabilities.wants_shell(plan.queries[0]):
            return None
        executors = np.zeros(mask.size, np.bool_)
        executors[snapshot.executors] = mask[snapshot.executors]
        return tool_filter(snapshot, executors, self._filters.exact_up_to)

    def _used(self, model: str, questions: Vectors | None) -> list[str]:
        """Returns the tools that were used after questions most like these."""
        if self._learning is None or questions is None:
            return []
        usage, size = self._learning.usage, questions.shape[1]
        known, key = self._usage, (usage.version, model, size)
        if known is None or known[:3] != key:
            found = [
                (tool, total)
                for tool, (_, total) in usage.of(model).items()
                if total.shape == (size,)
            ]
            sums = np.array([total for _, total in found], np.float32).reshape(-1, size)
            known = self._usage = *key, [tool for tool, _ in found], unit_rows(sums)
        _, _, _, tools, asked = known
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

    def _needed(self, question: _Question, rows: Sequence[Any]) -> set[int]:
        """Returns the tools that candidates need first, where these are asked for."""
        if self._learning is None or not question.plan.request.needed:
            return set()
        graph, names, mask = self._learning.graph, question.memory.names, question.visible.mask
        ids = (msgspec.msgpack.decode(row[1], type=Document).id for row in rows)
        needed = (need.tool for each in ids for need in graph.dependencies(each))
        return {number for tool in needed for number in names.by_id(tool, mask)}

    def _state(self, question: _Question, rows: list[Any]) -> IndexState:
        """Returns the candidates with everything that the steps of a search read."""
        memory, snapshot = question.memory, question.snapshot
        known = [(_decode(row[1]), row) for row in rows]
        known.sort(key=lambda each: each[0].id)
        rows = [row for _, row in known]
        corpus = Corpus(document for document, _ in known)
        statistics = snapshot.statistics
        wanted = np.zeros(len(statistics.vocabulary.stems), np.bool_)
        for weights in question.weights:
            wanted[list(weights)] = True
        tokens = [token_ids_of(row[2], row[3]) for row in rows]
        postings = Postings(tokens, statistics.vocabulary, wanted)
        part = PostingsPart(postings, np.arange(len(rows)))
        purposes = [
            Purpose(tuple(row[4].split("\n")) if row[4] else (), executes=row[5]) for row in rows
        ]
        place = {row[0]: number for number, row in enumerate(rows)}
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
            names=FoundNames.among(place, memory.names.impersonating, question.matches),
            capabilities=CapabilityIndex(corpus, self._capabilities, purposes),
            is_action=snapshot.is_action,
            visibility=Reachable(np.flatnonzero(question.asked.mask[[row[0] for row in rows]])),
            forecast=forecast,
            known=_KnownIds(memory, question.visible.mask),
        )

    def _semantic_index(
        self, memory: IndexMemory, corpus: Corpus, rows: Sequence[Any]
    ) -> EmbeddingIndex | None:
        if self._semantic is None:
            return None
        known = [row for row, each in enumerate(rows) if each[6] is not None]
        if not known:
            none = np.empty((0, 0), np.float32)
            return self._semantic.index_of(memory.model, corpus, none, np.empty(0, np.intp), None)
        vectors = vectors_of([rows[row][6] for row in known])
        zero = bytes(2 * vectors.shape[1])
        means = {rows[row][7]: rows[row][8] or zero for row in known}
        places = {server: place for place, server in enumerate(means)}
        context = ServerContext.among(
            memory.basis,
            vectors_of(list(means.values())),
            np.array([places[rows[row][7]] for row in known], np.intp),
            vectors,
        )
        return self._semantic.index_of(
            memory.model, corpus, vectors, np.array(known, np.intp), context
        )


@dataclass(frozen=True, slots=True)
class _KnownIds:
    """The ids of the tools that the caller may see."""

    memory: IndexMemory
    mask: Mask

    def __contains__(self, identifier: object) -> bool:
        return bool(self.memory.names.by_id(str(identifier), self.mask))


async def _nearest(question: _Question, listed: int, connection: Connection) -> list[Any]:
    """Returns the nearest tools of each query and filter: rows of numbers as bytes."""
    index = question.memory.id
    arguments: list[Any] = []
    statements: list[str] = []
    width = max(listed, min(WIDTH, WIDTH_OF_ALL // len(question.plan.queries)))
    for vector in () if question.vectors is None else question.vectors:
        arguments.append("[" + ",".join(map(str, vector.tolist())) + "]")
        distance = f"embedding <#> ${len(arguments)}::text::halfvec"
        for each in question.filters:
            where = ""
            order = f"({distance}) + 0" if each.is_exact else distance  # a sum has no index
            if each.is_exact and not each.is_everything:
                arguments.append(each.numbers.tolist())
                where = f"where number = any(${len(arguments)}::integer[])"
            elif not each.is_everything:
                arguments += [each.servers, each.numbers.tolist()]
                where = (
                    f"where server = any(${len(arguments) - 1}::integer[]) "
                    f"or number = any(${len(arguments)}::integer[])"
                )
            statements.append(_NEAREST.format(index=index, where=where, order=order, limit=listed))
    await connection.execute(
        f"set local jit = off; set local enable_sort = off; set local hnsw.ef_search = {width}; "
        "set local hnsw.iterative_scan = relaxed_order"
    )
    return await connection.fetch(
        " union all ".join(f"({each})" for each in statements), *arguments
    )


def _best_by_words(
    question: _Question, postings: Mapping[int, PostingList], listed: int
) -> list[int]:
    """Returns the numbers of the tools with the best words for each query and filter."""
    size = question.snapshot.alive.size
    known = {
        stem: each.with_later(question.snapshot.later.get(stem, ()), size)
        for stem, each in postings.items()
    }
    found: list[int] = []
    for weights in question.weights:
        weighted = [(known[stem], weight) for stem, weight in weights.items() if stem in known]
        for each in question.filters:
            found += best_tools(weighted, listed, each.mask).tolist()
    return found


def _decode(document: bytes) -> Document:
    return msgspec.msgpack.decode(document, type=Document)
