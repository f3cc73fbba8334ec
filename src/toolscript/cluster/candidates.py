"""Finds the candidates of a search in PostgreSQL, for catalogues too large for memory.

Candidates are the best of every signal, for the question and for each of its wishes: the nearest
vectors, the best words, the names that are spelled, and the tools beside those of the context.
They are scored by the same steps as a whole catalogue: with their own words and vectors, and with
the statistics of all tools, which memory has.
"""

import asyncio
import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio.to_thread
import msgspec
import numpy as np

from toolscript.cluster.candidate_fold import fold
from toolscript.cluster.candidate_rows import STORE, by_server, server_digest, vectors_of
from toolscript.cluster.candidate_writer import ServerTools, replace_server
from toolscript.cluster.change_feed import ChangeFeed
from toolscript.cluster.database import Database
from toolscript.cluster.driver import Connection
from toolscript.cluster.leases import STORE as LEASE_STORE
from toolscript.cluster.leases import Leases
from toolscript.cluster.posting_blocks import StemPostings, best
from toolscript.cluster.resident_index import IndexMemory, IndexRow, Snapshot, token_ids_of
from toolscript.embedding.base import Vectors, unit_rows
from toolscript.errors import DatabaseUnavailableError
from toolscript.graph.forecast import Forecast
from toolscript.graph.learning import Learning
from toolscript.retrieval.base import Corpus, EmbeddingIndex, Mask, Plan, Query
from toolscript.retrieval.capability import CapabilityIndex, CapabilityReader, Purpose, stems_of
from toolscript.retrieval.lexical.analyzer import Numbers, Stemmer
from toolscript.retrieval.lexical.bm25f import LexicalIndex, PostingsPart
from toolscript.retrieval.lexical.name_matching import NameMatch
from toolscript.retrieval.lexical.postings import Postings
from toolscript.retrieval.narrowing import LISTED, FoundNames, Reachable
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.retrieval.trace import IndexState
from toolscript.retrieval.visibility import WIDE, matcher
from toolscript.text.words import compact
from toolscript.types import SEPARATOR, Document, SearchRequest

log = logging.getLogger(__name__)
EXACT_UP_TO = 20_000
"""Among so many granted tools the nearest are found by looking at each."""
WIDTH, WIDTH_OF_ALL = 800, 1600
"""How many vectors of the graph are looked at for a question, and for it and its parts together."""
FOLD_SHARE, FOLD_LEAST = 0.02, 256
"""Where more tools than this share, and than this number, have changed, a fold is due."""
_RETRY_S = 1.0
_REMEMBERED = 32
"""For so many grants the tools are remembered, a byte for each tool."""

_ROWS = """
select number, document, words, lengths, purpose, executes, vector, server
from toolscript.candidate_tool where index_id = $1 and number = any($2)
"""
_MEANS = """
select number, mean from toolscript.candidate_server
where index_id = $1 and number = any($2) and mean <> ''
"""
_DIGESTS = """
select name, digest from toolscript.candidate_server where index_id = $1 and name = any($2)
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


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which tools a list is taken of."""

    mask: Mask
    servers: list[int]
    """The numbers of the servers all of whose tools count."""
    numbers: list[int]
    """The numbers of the other tools that count; of all tools where these are few."""
    is_exact: bool
    """Whether each of the tools is looked at; then all that count are in ``numbers``."""
    is_everything: bool
    """Whether every tool counts; then neither list has any."""


@dataclass(slots=True)
class _Question:
    """What is known of one search before the database is asked."""

    plan: Plan
    memory: IndexMemory
    snapshot: Snapshot
    visible: _Filter
    asked: _Filter
    """Those of the servers that were asked for; the same where none was."""
    vectors: Vectors | None
    weights: list[dict[int, float]]
    """By query and stem, what an impact is multiplied with."""
    matches: dict[str, dict[int, NameMatch]]
    """By the text of a query, the tools whose names it spells."""
    extra: set[int]
    """Tools that are candidates whatever the lists say."""
    executors: _Filter | None
    """The tools that run commands, where they may be what is asked for."""

    @property
    def filters(self) -> list[_Filter]:
        """Of which tools lists are taken."""
        asked = [self.asked] if self.asked is not self.visible else []
        return [self.visible, *asked, *([self.executors] if self.executors else [])]


class DatabaseCandidates:
    """See `Candidates`. Open it before the first search.

    Args:
        database: Where the index is.
        feed: Tells of changes, by whichever gateway.
        catalogue: Whose index it is.
        stemmer: The stemmer of the engine.
        semantic: Embeds questions; None searches by words only.
        learning: What the graph has learned; None for nothing.
        leases: Say which servers this gateway writes; None writes all.
        splits: Whether questions that have several wishes are split.
        listed: How many candidates are taken of each list.
        exact_up_to: Among so many granted tools the nearest are found by looking at each.
    """

    def __init__(  # noqa: PLR0913 - what bootstrap wires, each by its name
        self,
        database: Database,
        feed: ChangeFeed,
        catalogue: str,
        *,
        stemmer: Stemmer | None = None,
        semantic: SemanticSignal | None = None,
        learning: Learning | None = None,
        leases: Leases | None = None,
        splits: bool = True,
        listed: int = LISTED,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        self._database = database
        self._feed = feed
        self._catalogue = catalogue
        self._stemmer = stemmer or Stemmer()
        self._semantic = semantic
        self._learning = learning
        self._leases = leases
        self._splits = splits
        self._listed = listed
        self._exact_up_to = exact_up_to
        self._capabilities = CapabilityReader(self._stemmer)
        self._memory = IndexMemory(IndexRow.none(), self._stemmer)
        self._filters: OrderedDict[object, _Filter] = OrderedDict()
        self._usage: tuple[int, str, int, list[str], Vectors] | None = None
        """The version, model and length of what was learned, the tools, and their vectors."""
        self._writing = threading.Lock()
        self._documents: dict[str, list[Document]] = {}
        self._served: frozenset[str] | None = None
        """The servers whose tools are found here; None for all."""
        self._written: dict[str, list[Document]] = {}
        """By server, the tools that the database is known to have."""
        self._later: asyncio.Future[Any] | None = None
        self._waits = False
        """Whether something is about to be written in the background."""
        feed.subscribe(STORE, self._changed)
        feed.subscribe(LEASE_STORE, self._note_owners)

    def open(self) -> None:
        """Reads what memory needs: for a million tools that takes some seconds.

        Raises `DatabaseUnavailableError`.
        """
        self._database.run(self._load)

    @property
    def is_built(self) -> bool:
        """Whether there is an index."""
        return bool(self._memory.id)

    @property
    def size(self) -> int:
        """See `Candidates.size`."""
        return self._memory.snapshot.size

    @property
    def is_action(self) -> Callable[[str], bool] | None:
        """See `Candidates.is_action`."""
        return self._memory.snapshot.is_action if self._splits else None

    @property
    def position(self) -> int:
        """The number of the latest change that searches here see."""
        return self._memory.snapshot.position

    @property
    def fold_is_due(self) -> bool:
        """Whether so much has changed that `fold` is worth its time."""
        changed = self._memory.changed
        return changed > max(FOLD_LEAST, FOLD_SHARE * self.size)

    # Changes

    def update(
        self, documents: Iterable[Document], superseded: Callable[[], bool]
    ) -> Iterator[int]:
        """See `StoredCandidates.update`.

        Writes what is new of the servers that this gateway owns. While the database does not
        answer that is tried again in the background.
        """
        self._documents = by_server(documents)
        self._served = frozenset(self._documents)
        yield from self._write(superseded)

    def _write(self, superseded: Callable[[], bool] = lambda: False) -> Iterator[int]:
        with self._writing:
            try:
                yield from self._write_changed(superseded)
            except DatabaseUnavailableError as error:
                log.warning("the index of the tools cannot be written, and is later: %s", error)
                self._write_later(_RETRY_S)

    def _write_changed(self, superseded: Callable[[], bool]) -> Iterator[int]:
        documents, model = self._documents, self._memory.model
        known = documents.keys() | self._memory.server_numbers.keys()
        leases = dict.fromkeys(known, "") if self._leases is None else self._leases.of_servers
        changed = sorted(
            name
            for name in known & leases.keys()
            if self._written.get(name) != documents.get(name, [])
        )
        stored = dict(self._database.run(partial(self._digests, changed)))
        left = sum(len(documents.get(name, ())) for name in changed)
        for name in changed:
            tools = documents.get(name, [])
            digest = server_digest(model, tools)
            if stored.get(name) != digest:
                yield left
                if superseded():
                    return
                vectors = self._vectors(model, tools)
                is_complete = len(vectors) == len(tools)
                new = ServerTools(name, tools, vectors, digest if is_complete else "")
                self._database.run(partial(self._replace, new, leases[name]))
            self._written[name] = tools
            left -= len(tools)
        if self.fold_is_due:
            self._database.run(self._fold)

    async def _digests(self, servers: Sequence[str], connection: Connection) -> list[Any]:
        return await connection.fetch(_DIGESTS, self._memory.id, servers)

    def _vectors(self, model: str, tools: Sequence[Document]) -> dict[str, Vectors]:
        """Returns the vectors of tools by the index's ``model``; none where another one answers."""
        if self._semantic is None or not tools:
            return {}
        found, vectors = self._semantic.vectors_of(tools)
        return vectors if found == model else {}

    def _write_later(self, seconds: float) -> None:
        """Has what is not written yet written in the background. On the database's loop, or not."""
        if self._served is None or self._waits:
            return
        self._waits = True

        async def write() -> None:
            await asyncio.sleep(seconds)
            self._waits = False
            await asyncio.to_thread(deque, self._write(), 0)

        self._later = self._database.submit(write())

    async def replace_server(self, tools: ServerTools) -> None:
        """Writes what a server's tools are from now on. Before `rebuild` it does nothing.

        A tool without a vector is found by its words until it is written with one. Raises
        `DatabaseUnavailableError`: it may or may not be written then.
        """
        await self._database.arun(partial(self._replace, tools, ""))
        await self._database.arun(self._memory.advance)

    async def _replace(self, tools: ServerTools, lease: str, connection: Connection) -> None:
        row = await IndexRow.current(connection, self._catalogue, "for update")
        if not row.id or not await self._may_write(connection, lease):
            return
        if row.id != self._memory.id:
            await self._load(connection)
        await self._memory.advance(connection)
        if await replace_server(connection, self._memory, row, tools):
            await self._feed.add(connection, STORE, str(row.position + 1))

    async def _may_write(self, connection: Connection, lease: str) -> bool:
        return not lease or self._leases is None or await self._leases.fence(connection, lease)

    async def fold(self) -> int:
        """Merges the changes into the blocks; returns how many were merged.

        Where several gateways do this at once, one of them does it.
        """
        return await self._database.arun(self._fold)

    async def _fold(self, connection: Connection) -> int:
        row = await IndexRow.current(connection, self._catalogue)
        merged = await fold(connection, row, Stemmer()) if row.id else 0
        if merged:
            await self._feed.add(connection, STORE, "folded")
        return merged

    async def _changed(self, _: frozenset[str] | None) -> None:
        """Takes what has changed. On the database's loop."""

        async def follow(connection: Connection) -> None:
            row = await IndexRow.current(connection, self._catalogue)
            if row.id != self._memory.id or row.folded_position > self._memory.snapshot.position:
                await self._load(connection)
                return
            await self._memory.advance(connection)
            self._memory.forget_folded(row.folded_number)

        await self._database.execute(follow)

    async def _note_owners(self, _: object) -> None:
        """What the former owner of a server has not written this gateway may have to write."""
        self._write_later(_RETRY_S)

    async def _load(self, connection: Connection) -> None:
        row = await IndexRow.current(connection, self._catalogue, "for share")
        memory = IndexMemory(row, self._stemmer)
        if row.id:
            await memory.load(connection, row)
        is_another = row.id != self._memory.id
        self._memory, self._written = memory, {}
        if is_another:
            self._write_later(_RETRY_S)

    # Searches

    async def find(self, plan: Plan) -> IndexState:
        """See `Candidates.find`. Raises `DatabaseUnavailableError`."""
        memory = self._memory
        snapshot = memory.snapshot  # one for the whole search, whatever changes in the meantime
        visible = await self._visible(memory, snapshot, plan.request)
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
        self, plan: Plan, memory: IndexMemory, snapshot: Snapshot, visible: _Filter
    ) -> _Question:
        """Returns what can be known of a search without the database."""
        request, mask = plan.request, visible.mask
        asked = visible
        if request.servers:
            numbers = [memory.server_numbers.get(name, -1) for name in request.servers]
            of_servers = mask & np.isin(snapshot.server, numbers)
            asked = _filter(snapshot, of_servers, self._exact_up_to)
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

    def _executors(self, plan: Plan, snapshot: Snapshot, mask: Mask) -> _Filter | None:
        """Returns the tools that run commands, where the question wants what a shell can do."""
        wanted = stems_of(plan.queries[0].text, self._stemmer)
        intents = (c.intents for c in self._capabilities.table.capabilities if c.shell)
        if not any(pattern <= wanted for patterns in intents for pattern in patterns):
            return None
        executors = np.zeros(mask.size, np.bool_)
        executors[snapshot.executors] = mask[snapshot.executors]
        return _filter(snapshot, executors, self._exact_up_to)

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

    # Who may see what

    async def _visible(
        self, memory: IndexMemory, snapshot: Snapshot, request: SearchRequest
    ) -> _Filter:
        """Returns the tools that the caller may see, found once for each grant and position."""
        grant, served = request.grant, self._served
        key = memory.id, snapshot.position, served, grant.servers, grant.tools, request.hidden
        found = self._filters.get(key)
        if found is None:
            wide = [pattern for pattern in grant.tools if WIDE.search(pattern)]
            matching = await self._matching(memory, wide) if wide else []
            found = await anyio.to_thread.run_sync(
                partial(self._granted, memory, snapshot, request, matching, served)
            )
            self._filters[key] = found
            while len(self._filters) > _REMEMBERED:
                self._filters.popitem(last=False)
        return found

    def _granted(
        self,
        memory: IndexMemory,
        snapshot: Snapshot,
        request: SearchRequest,
        matching: Sequence[int],
        served: frozenset[str] | None,
    ) -> _Filter:
        """Returns the tools that a caller may see; ``matching`` match a pattern of ids."""
        alive, grant = snapshot.alive, request.grant
        matches = matcher(grant.servers)
        names = memory.servers or [""]
        mask = alive & np.array([matches(name) for name in names], np.bool_)[snapshot.server]
        for identifier in grant.tools:
            mask[memory.names.by_id(identifier, alive)] = True
        known = np.array(matching, np.int64)
        known = known[known < alive.size]
        mask[known] = alive[known]
        for identifier in request.hidden:
            mask[memory.names.by_id(identifier, alive)] = False
        if served is not None:
            mask &= np.array([name in served for name in names], np.bool_)[snapshot.server]
        return _filter(snapshot, mask, self._exact_up_to)

    async def _matching(self, memory: IndexMemory, patterns: Sequence[str]) -> list[int]:
        """Returns the numbers of the tools whose id matches a pattern."""
        split = [pattern.partition(SEPARATOR) for pattern in patterns]
        servers: list[int] | None = None
        if all(separator and not WIDE.search(server) for server, separator, _ in split):
            named = (memory.server_numbers.get(server) for server, _, _ in split)
            servers = [number for number in named if number is not None]
        rows = await self._fetched(
            "select number, id from toolscript.candidate_tool where index_id = $1 "
            "and ($2::integer[] is null or server = any($2))",
            *(memory.id, servers),
        )
        matches = matcher(patterns)
        return [number for number, identifier in rows if matches(identifier)]


@dataclass(frozen=True, slots=True)
class _KnownIds:
    """The ids of the tools that the caller may see."""

    memory: IndexMemory
    mask: Mask

    def __contains__(self, identifier: object) -> bool:
        return bool(self.memory.names.by_id(str(identifier), self.mask))


def _filter(snapshot: Snapshot, mask: Mask, exact_up_to: int) -> _Filter:
    """Returns a mask as the statements of `_lists` state it."""
    granted = np.flatnonzero(mask)
    is_exact = granted.size <= exact_up_to
    is_everything = granted.size == snapshot.size
    if is_everything or is_exact:
        numbers = [] if is_everything else granted.tolist()
        return _Filter(mask, [], numbers, is_exact=is_exact, is_everything=is_everything)
    count = int(snapshot.server.max()) + 1
    all_of = np.bincount(snapshot.server[snapshot.alive], minlength=count)
    seen_of = np.bincount(snapshot.server[granted], minlength=count)
    full = (all_of == seen_of) & (all_of > 0)
    rest = granted[~full[snapshot.server[granted]]]
    return _Filter(
        mask, np.flatnonzero(full).tolist(), rest.tolist(), is_exact=False, is_everything=False
    )


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
                arguments.append(each.numbers)
                where = f"where number = any(${len(arguments)}::integer[])"
            elif not each.is_everything:
                arguments += [each.servers, each.numbers]
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
