"""Finds the candidates of one search in PostgreSQL, with all that scores them.

Candidates are the best of every signal, for the question and for each of its wishes: the nearest
vectors, the best words, the names that are spelled, and the tools beside those of the context.
They are scored by the same steps as a whole catalogue: with their own words and vectors, and with
the statistics of all tools, which memory has.
"""

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
from toolscript.cluster.posting_blocks import StemPostings, best
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
select number, document, words, lengths, purpose, executes, vector, server
from toolscript.candidate_tool where index_id = $1 and number = any($2)
"""
_MEANS = """
select number, mean from toolscript.candidate_server
where index_id = $1 and number = any($2) and mean <> ''
"""
_BLOCKS = """
select stem, tools, impacts from toolscript.candidate_posting
where index_id = $1 and stem = any($2)
"""
_NEAREST = """
select -1, string_agg(int4send(number), ''::bytea), null::bytea from (
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
        snapshot = memory.snapshot  # one for the whole search, whatever changes in the meantime
        visible = await self._filters.visible(memory, snapshot, plan.request, served)
        question = await anyio.to_thread.run_sync(
            partial(self._asked, plan, memory, snapshot, visible)
        )
        lists = await self._database.arun(partial(_lists, question, self._listed))
        numbers = await anyio.to_thread.run_sync(partial(_chosen, question, lists, self._listed))
        rows = await self._rows(memory.id, numbers)
        needed = self._needed(question, rows) - set(numbers.tolist())
        if needed:
            rows += await self._rows(memory.id, np.array(sorted(needed), np.int32))
        servers = sorted({row[7] for row in rows if row[6] is not None})
        means = dict(await self._fetched(_MEANS, memory.id, servers)) if servers else {}
        return await anyio.to_thread.run_sync(partial(self._state, question, rows, means))

    async def _rows(self, index: int, numbers: Numbers) -> list[Any]:
        return await self._fetched(_ROWS, index, numbers.tolist()) if numbers.size else []

    async def _fetched(self, query: str, *arguments: object) -> list[Any]:
        return await self._database.arun(lambda connection: connection.fetch(query, *arguments))

    def _asked(
        self, plan: Plan, memory: IndexMemory, snapshot: Snapshot, visible: ToolFilter
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

    def _state(
        self, question: _Question, rows: list[Any], means: Mapping[int, bytes]
    ) -> IndexState:
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
        semantic, forecast = self._semantic_index(memory, corpus, rows, means), None
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
        self, memory: IndexMemory, corpus: Corpus, rows: Sequence[Any], means: Mapping[int, bytes]
    ) -> EmbeddingIndex | None:
        if self._semantic is None:
            return None
        known = [row for row, each in enumerate(rows) if each[6] is not None]
        if not known:
            none = np.empty((0, 0), np.float32)
            return self._semantic.index_of(memory.model, corpus, none, np.empty(0, np.intp), None)
        vectors = vectors_of([rows[row][6] for row in known])
        zero = bytes(2 * vectors.shape[1])
        servers = sorted({rows[row][7] for row in known})
        places = {server: place for place, server in enumerate(servers)}
        context = ServerContext.among(
            memory.basis,
            vectors_of([means.get(server, zero) for server in servers]),
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


async def _lists(question: _Question, listed: int, connection: Connection) -> list[Any]:
    """Returns the posting blocks of the question's stems, and the nearest tools, in one query."""
    index = question.memory.id
    stems = sorted({stem for weights in question.weights for stem in weights})
    arguments: list[Any] = [index, stems]
    statements = [_BLOCKS]
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
    if not index:
        return []
    await connection.execute(
        f"set local jit = off; set local enable_sort = off; set local hnsw.ef_search = {width}; "
        "set local hnsw.iterative_scan = relaxed_order"
    )
    return await connection.fetch(
        " union all ".join(f"({each})" for each in statements), *arguments
    )


def _chosen(question: _Question, lists: Sequence[Any], listed: int) -> Numbers:
    """Returns the numbers of the candidates."""
    snapshot = question.snapshot
    blocks = [tuple(row) for row in lists if row[0] >= 0]
    postings = StemPostings(blocks, snapshot.alive.size)
    postings.add(
        {stem: question.memory.later.get(stem, ()) for each in question.weights for stem in each}
    )
    found = [np.array(sorted(question.extra), np.int32)]
    nearest = (row[1] for row in lists if row[0] < 0 and row[1])
    found += [np.frombuffer(each, ">i4").astype(np.int32) for each in nearest]
    for weights in question.weights:
        totals = postings.totals(weights)
        found += [best(totals, listed, each.mask) for each in question.filters]
    numbers = np.unique(np.concatenate(found))
    numbers = numbers[numbers < snapshot.alive.size]
    return numbers[question.visible.mask[numbers]]


def _decode(document: bytes) -> Document:
    return msgspec.msgpack.decode(document, type=Document)
