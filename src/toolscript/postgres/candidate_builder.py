"""Builds the index of a large catalogue in PostgreSQL from all of its tools."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from toolscript.embedding.base import Vectors
from toolscript.errors import InputError
from toolscript.postgres.candidate_rows import (
    BUILD_TIMEOUT_S,
    STORE,
    TOOL_COLUMNS,
    by_server,
    copy_counts,
    copy_rows,
    halves,
    server_digest,
    tool_columns,
)
from toolscript.postgres.change_feed import ChangeFeed
from toolscript.postgres.database import Database
from toolscript.postgres.driver import Connection
from toolscript.postgres.nearest_neighbors import DIMS, NearestNeighbors
from toolscript.postgres.posting_blocks import Entries, blocks_of, entries_of, sorted_entries
from toolscript.postgres.reduced_vectors import SAMPLE, principal_axes
from toolscript.postgres.word_counts import WordCounts
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import FIELDS, Analyzer, Stemmer, TokenIds, token_ids
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import Basis, ServerContext, common_of
from toolscript.types import Document

_TABLES = ("server", "tool", "word", "stem", "posting", "change")

Batch = tuple[Sequence[Document], Vectors]
"""All tools of one or several servers, and their vectors: float32 [n, dim], unit rows."""


class _Builder:
    """Makes the rows of a new index, batch by batch."""

    def __init__(self, index_id: int, model: str, basis: Basis, axes: Vectors) -> None:
        self.id = index_id
        self.model = model
        self.basis = basis
        self.components = NearestNeighbors(axes, 0)
        self.stemmer = Stemmer()
        self.analyzer = Analyzer(self.stemmer)
        self.capabilities = CapabilityReader(self.stemmer)
        self.servers: dict[str, int] = {}
        self.means: dict[str, bytes | None] = {}
        self.digests: dict[str, str] = {}
        self.lengths_of_vectors: list[Vectors] = []
        self.size = 0
        self.counts = WordCounts(self.analyzer.vocabulary)
        self.batches: list[tuple[int, NDArray[np.int32], NDArray[np.int32]]] = []
        """By batch its first number, all words' numbers, and the lengths [tools, fields]."""

    def rows(
        self, documents: Sequence[Document], vectors: Vectors, components: Mapping[int, bytes]
    ) -> Iterator[tuple[object, ...]]:
        """Yields the rows of the tools of a batch; ``components`` are by a tool's place in it."""
        vocabulary = self.analyzer.vocabulary
        first, known = self.size, list[TokenIds]()
        for number, document in enumerate(documents, first):
            tool = token_ids(document, vocabulary.__getitem__)
            known.append(tool)
            server = self.servers.setdefault(document.server, len(self.servers))
            purpose = self.capabilities.purpose(document)
            columns = tool_columns(document, tool, purpose)
            place = number - first
            yield (self.id, number, server, *columns, halves(vectors[place]), components.get(place))
        lengths = np.array([tool.lengths for tool in known], np.int32).reshape(-1, len(FIELDS))
        words = np.concatenate([np.empty(0, np.int32), *(tool.numbers for tool in known)])
        self.counts.grow()
        self.counts.count(known, 1)
        self.batches.append((first, words, lengths))
        self.size += len(known)

    def entries(self) -> Entries:
        """Returns the entries of all tools."""
        averages = self.counts.lengths / max(1, self.size)
        parts: list[Entries] = []
        for first, words, lengths in self.batches:
            ends = lengths.sum(axis=1).cumsum()
            tools = [
                TokenIds(numbers, each)
                for numbers, each in zip(np.split(words, ends[:-1]), lengths, strict=True)
            ]
            stems, places, impacts = entries_of(tools, self.analyzer.vocabulary, averages)
            parts.append((stems, places + np.int32(first), impacts))
        none = np.empty(0, np.int32)
        return sorted_entries(parts or [(none, none, np.empty(0, np.float16))])

    async def load_words(self, connection: Connection) -> None:
        """Adds words, servers and posting blocks."""
        entries = self.entries()
        await copy_counts(connection, self.id, self.counts)
        servers = [
            (self.id, number, name, self.means.get(name) or b"", self.digests.get(name, ""))
            for name, number in self.servers.items()
        ]
        await copy_rows(connection, "server", ("number", "name", "mean", "digest"), servers)
        blocks = ((self.id, *block) for block in blocks_of(entries))
        await copy_rows(connection, "posting", ("stem", "block", "tools", "impacts"), blocks)

    async def analyze(self, connection: Connection) -> None:
        """Has the database look at what is in the tables."""
        for table in _TABLES:
            await connection.execute(
                f"analyze toolscript.candidate_{table}", timeout=BUILD_TIMEOUT_S
            )

    async def replace(
        self, catalogue: str, feed: ChangeFeed | None, connection: Connection
    ) -> None:
        """Puts the index in place of the former one, which stays until the next time."""
        # Searches of other gateways that are under way go on with the former one.
        former: list[int] = [
            row[0]
            for row in await connection.fetch(
                "select id from toolscript.candidate_index "
                "where catalogue = $1 and id < $2 and not is_current",
                *(catalogue, self.id),
            )
        ]
        for table in _TABLES:
            await connection.execute(
                f"delete from toolscript.candidate_{table} where index_id = any($1)",  # noqa: S608 - ours
                former,
                timeout=BUILD_TIMEOUT_S,
            )
        await connection.execute(
            "delete from toolscript.candidate_index where id = any($1)", former
        )
        await connection.execute(
            "update toolscript.candidate_index set is_current = false where catalogue = $1",
            catalogue,
        )
        lengths = np.concatenate(self.lengths_of_vectors) if self.lengths_of_vectors else np.ones(1)
        done = await connection.fetchval(
            "update toolscript.candidate_index set is_current = true, next_number = $2, "
            "folded_number = $2, folded_size = $2, folded_lengths = $3, scale = $4 where id = $1 "
            "returning id",
            *(self.id, self.size, self.counts.lengths.tolist(), float(lengths.mean())),
        )
        if done is None:
            raise InputError("another rebuild has ended in the meantime; its index is used")
        if feed is not None:
            await feed.add(connection, STORE, "rebuilt")


def rebuild(
    database: Database,
    catalogue: str,
    model: str,
    batches: Callable[[], Iterable[Batch]],
    *,
    feed: ChangeFeed | None = None,
) -> int:
    """Makes the index of a catalogue from nothing, and puts it in place of the former one.

    Searches go on with the former index in the meantime. Its changes are lost, until the gateways
    that own the servers write them again. Blocks.

    Args:
        database: Where the index is.
        catalogue: Whose index it is.
        model: The name of the model that made the vectors.
        batches: Returns every tool once; all tools of a server are in the same batch. Called twice.
        feed: Tells the other gateways.

    Returns:
        The number of tools.

    Raises:
        DatabaseUnavailableError: The database does not answer.
    """
    builder = _begin(database, catalogue, model, *_in_common(vectors for _, vectors in batches()))
    for documents, vectors in batches():
        database.run(partial(_load, builder, documents, vectors))
    for work in (builder.load_words, builder.analyze, partial(builder.replace, catalogue, feed)):
        database.run(work)
    return builder.size


def _in_common(batches: Iterable[Vectors]) -> tuple[Vectors, Vectors]:
    """Returns what all vectors have in common, and the axes along which a sample varies most."""
    total, count, step = np.zeros(1), 0, 1
    sample: list[Vectors] = []
    for vectors in batches:
        total = total + vectors.sum(axis=0, dtype=np.float64)
        known = vectors[vectors.any(axis=1)]
        sample.extend(known[-count % step :: step].copy())  # or all of the batch would be kept
        count += len(known)
        while len(sample) > 2 * SAMPLE:
            sample, step = sample[::2], 2 * step
    common = common_of(total / max(1, count))
    return common, principal_axes(np.array(sample).reshape(-1, common.size) - common, DIMS)


def embedded(servers: Iterable[Sequence[Document]], semantic: SemanticSignal) -> Iterator[Batch]:
    """Yields the tools of each server with their vectors; zeros if there is none."""
    encoder = semantic.model.get().encoder
    for tools in servers:
        _, known = semantic.vectors_of(tools)
        vectors = np.zeros((len(tools), encoder.dim if encoder else 1), np.float32)
        for row, tool in enumerate(tools):
            vectors[row] = known.get(tool.id, 0.0)
        yield tools, vectors


def _begin(
    database: Database, catalogue: str, model: str, common: Vectors, axes: Vectors
) -> _Builder:
    """Creates an index with nothing in it."""

    async def begin(connection: Connection) -> int:
        number: int = await connection.fetchval(
            "insert into toolscript.candidate_index (catalogue, model, common, axes) "
            "values ($1, $2, $3, $4) returning id",
            *(catalogue, model, *(each.astype("<f4").tobytes() for each in (common, axes))),
        )
        return number

    return _Builder(database.run(begin), model, Basis(common, 1.0), axes)


async def _load(
    builder: _Builder, documents: Sequence[Document], vectors: Vectors, connection: Connection
) -> None:
    """Adds a batch of tools with their vectors."""
    has_vector = vectors.any(axis=1)
    known = np.flatnonzero(has_vector)
    components: dict[int, bytes] = {}
    if known.size:
        names = [documents[row].server for row in known.tolist()]
        rows = vectors[known]
        context = ServerContext.of(names, rows, builder.basis)
        moved = builder.components.components_of(context.moved(rows))
        components = {row: each.tobytes() for row, each in zip(known.tolist(), moved, strict=True)}
        builder.lengths_of_vectors.append(context.lengths[0])
        builder.means.update(zip(dict.fromkeys(names), map(halves, context.means), strict=True))
        waiting = {documents[row].server for row in np.flatnonzero(~has_vector).tolist()}
        for name, tools in by_server(documents).items():
            if name not in waiting:
                builder.digests[name] = server_digest(builder.model, tools)
    await connection.copy_records_to_table(
        "candidate_tool",
        records=list(builder.rows(documents, vectors, components)),
        columns=TOOL_COLUMNS,
        schema_name="toolscript",
        timeout=BUILD_TIMEOUT_S,
    )
