"""Writes to PostgreSQL the rows that searches of a large catalogue read.

A tool that changes gets another number, so that whatever was written about the former one only has
to be left out. Changes are made one after the other: each locks the index's row, which also gives
out the numbers of tools, servers and words.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolscript.cluster.change_feed import ChangeFeed
from toolscript.cluster.database import Database
from toolscript.cluster.driver import Connection
from toolscript.cluster.posting_blocks import (
    Entries,
    blocks_of,
    entries_of,
    sorted_entries,
)
from toolscript.cluster.resident_index import (
    Change,
    IndexMemory,
    IndexRow,
    ToolRecord,
    WordCounts,
    first_words,
)
from toolscript.embedding.base import Vectors
from toolscript.errors import ConfigError
from toolscript.retrieval.capability import CapabilityReader, Purpose
from toolscript.retrieval.lexical.analyzer import (
    FIELDS,
    Analyzer,
    Stemmer,
    TokenIds,
    Vocabulary,
    token_ids,
)
from toolscript.retrieval.semantic.semantic_signal import SemanticSignal
from toolscript.retrieval.semantic.server_context import Basis, ServerContext, common_of
from toolscript.retrieval.subqueries import SHORTEST_ACTION
from toolscript.types import Document

STORE = "candidates"
"""The kind of this in the change feed."""
BUILD_TIMEOUT_S = 4 * 3600.0
GRAPH_EDGES, GRAPH_WIDTH = 24, 128
"""HNSW: links of a vector, and how many are looked at to find them while it is built."""
_MEMORY_A_VECTOR = 4
"""Bytes of memory for building it, for each byte of the vectors."""
_TABLES = ("server", "tool", "word", "stem", "posting", "change")
_TOOL_COLUMNS = (
    *("index_id", "number", "server", "id", "name", "document", "words", "lengths"),
    *("purpose", "executes", "vector"),
)

_FOLDING = 0x746F6F6C
"""For `pg_try_advisory_xact_lock`, with the id of the index."""
_HAS_VECTORS = "select 1 from pg_available_extensions where name = 'vector'"

Batch = tuple[Sequence[Document], Vectors]
"""All tools of one or several servers, and their vectors: float32 [n, dim], unit rows."""


class _Builder:
    """Makes the rows of a new index, batch by batch."""

    def __init__(self, index_id: int, model: str, basis: Basis) -> None:
        self.id = index_id
        self.model = model
        self.basis = basis
        self.stemmer = Stemmer()
        self.analyzer = Analyzer(self.stemmer)
        self.capabilities = CapabilityReader(self.stemmer)
        self.servers: dict[str, int] = {}
        self.means: dict[str, bytes | None] = {}
        self.digests: dict[str, str] = {}
        self.lengths_of_vectors: list[Vectors] = []
        self.size = 0
        self.lengths = np.zeros(len(FIELDS), np.int64)
        self.batches: list[tuple[int, NDArray[np.int32], NDArray[np.int32]]] = []
        """By batch its first number, all words' numbers, and the lengths [tools, fields]."""
        self.openings: dict[int, int] = {}

    def rows(self, documents: Sequence[Document], vectors: Vectors) -> Iterator[tuple[object, ...]]:
        """Yields the rows of the tools of a batch."""
        vocabulary = self.analyzer.vocabulary
        first, known = self.size, list[TokenIds]()
        for number, document in enumerate(documents, first):
            tool = token_ids(document, vocabulary.__getitem__)
            known.append(tool)
            for word in first_words(tool):
                if len(vocabulary.words[word]) >= SHORTEST_ACTION:
                    stem = vocabulary.stem_of[word]
                    self.openings[stem] = self.openings.get(stem, 0) + 1
            server = self.servers.setdefault(document.server, len(self.servers))
            purpose = self.capabilities.purpose(document)
            stored = _halves(vectors[number - first])
            yield (self.id, number, server, *_columns(document, tool, purpose), stored)
        lengths = np.array([tool.lengths for tool in known], np.int32).reshape(-1, len(FIELDS))
        words = np.concatenate([np.empty(0, np.int32), *(tool.numbers for tool in known)])
        self.lengths += lengths.sum(axis=0)
        self.batches.append((first, words, lengths))
        self.size += len(known)

    def entries(self) -> Entries:
        """Returns the entries of all tools."""
        averages = self.lengths / max(1, self.size)
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

    def word_rows(self) -> list[tuple[int, int, str, int]]:
        """Returns the rows of the words."""
        words = self.analyzer.vocabulary.words
        counts = np.zeros(len(words), np.int64)
        for _, numbers, _ in self.batches:
            counts += np.bincount(numbers, minlength=len(words))
        return [(self.id, n, word, int(counts[n])) for n, word in enumerate(words)]

    async def load_words(self, connection: Connection) -> None:
        """Adds words, servers and posting blocks."""
        entries = self.entries()
        frequencies = np.bincount(entries[0], minlength=len(self.analyzer.vocabulary.stems))
        await _copy(connection, "word", ("number", "word", "count"), self.word_rows())
        await _copy(
            connection,
            "stem",
            ("number", "frequency", "openings"),
            [(self.id, n, f, self.openings.get(n, 0)) for n, f in enumerate(frequencies.tolist())],
        )
        servers = [
            (self.id, number, name, self.means.get(name) or b"", self.digests.get(name, ""))
            for name, number in self.servers.items()
        ]
        await _copy(connection, "server", ("number", "name", "mean", "digest"), servers)
        blocks = ((self.id, *block) for block in blocks_of(entries))
        await _copy(connection, "posting", ("stem", "block", "tools", "impacts"), blocks)

    async def make_graph(self, memory_limit_mb: int, connection: Connection) -> None:
        """Makes the graph of the vectors."""
        needed = _MEMORY_A_VECTOR * 2 * self.basis.common.size * self.size // 2**20
        memory = min(memory_limit_mb, max(64, needed))
        await connection.execute(f"set local maintenance_work_mem = '{memory}MB'")
        name = f"candidate_vector_{self.id}"
        await connection.execute(
            f"alter table toolscript.{name} add primary key (number)", timeout=BUILD_TIMEOUT_S
        )
        await connection.execute(
            f"create index on toolscript.{name} using hnsw (embedding halfvec_ip_ops) "
            f"with (m = {GRAPH_EDGES}, ef_construction = {GRAPH_WIDTH})",
            timeout=BUILD_TIMEOUT_S,
        )

    async def analyze(self, connection: Connection) -> None:
        """Has the database look at what is in the tables."""
        for table in (*_TABLES, f"vector_{self.id}"):
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
                "where catalogue = $1 and id <> $2 and not is_current",
                *(catalogue, self.id),
            )
        ]
        for table in _TABLES:
            await connection.execute(
                f"delete from toolscript.candidate_{table} where index_id = any($1)",  # noqa: S608 - ours
                former,
                timeout=BUILD_TIMEOUT_S,
            )
        for number in former:
            await connection.execute(f"drop table if exists toolscript.candidate_vector_{number}")
        await connection.execute(
            "delete from toolscript.candidate_index where id = any($1)", former
        )
        await connection.execute(
            "update toolscript.candidate_index set is_current = false where catalogue = $1",
            catalogue,
        )
        lengths = np.concatenate(self.lengths_of_vectors) if self.lengths_of_vectors else np.ones(1)
        await connection.execute(
            "update toolscript.candidate_index set is_current = true, next_number = $2, "
            "folded_number = $2, folded_size = $2, folded_lengths = $3, scale = $4 where id = $1",
            *(self.id, self.size, self.lengths.tolist(), float(lengths.mean())),
        )
        if feed is not None:
            await feed.add(connection, STORE, "rebuilt")


def rebuild(  # noqa: PLR0913 - what an index is made of, each by its name
    database: Database,
    catalogue: str,
    model: str,
    batches: Callable[[], Iterable[Batch]],
    *,
    feed: ChangeFeed | None = None,
    memory_limit_mb: int = 2048,
) -> int:
    """Makes the index of a catalogue from nothing, and puts it in place of the former one.

    Searches go on with the former index in the meantime. Its changes are lost, until the gateways
    that own the servers write them again. Blocks; the longest part is the graph of the vectors.

    Args:
        database: Where the index is.
        catalogue: Whose index it is.
        model: The name of the model that made the vectors.
        batches: Returns every tool once; all tools of a server are in the same batch. Called twice.
        feed: Tells the other gateways.
        memory_limit_mb: How much memory the database may use for making the graph, in MiB.

    Returns:
        The number of tools.

    Raises:
        ConfigError: The database has no pgvector.
        DatabaseUnavailableError: It does not answer.
    """
    total, count = np.zeros(1), 0
    for _, vectors in batches():
        total = total + vectors.sum(axis=0, dtype=np.float64)
        count += int(vectors.any(axis=1).sum())
    builder = _begin(database, catalogue, model, common_of(total / max(1, count)))
    for documents, vectors in batches():
        database.run(partial(_load, builder, documents, vectors))
    for work in (
        builder.load_words,
        partial(builder.make_graph, memory_limit_mb),
        builder.analyze,
        partial(builder.replace, catalogue, feed),
    ):
        database.run(work)
    return builder.size


def embedded(servers: Iterable[Sequence[Document]], semantic: SemanticSignal) -> Iterator[Batch]:
    """Yields the tools of each server with their vectors; zeros where there is none."""
    encoder = semantic.model.get().encoder
    for tools in servers:
        _, known = semantic.vectors_of(tools)
        vectors = np.zeros((len(tools), encoder.dim if encoder else 1), np.float32)
        for row, tool in enumerate(tools):
            vectors[row] = known.get(tool.id, 0.0)
        yield tools, vectors


@dataclass(frozen=True, slots=True)
class ServerTools:
    """What a server's tools are."""

    server: str
    """The server's name."""
    documents: Sequence[Document]
    """All its tools; none removes them."""
    vectors: Mapping[str, Vectors]
    """By a tool's id its vector, float32 [dim], unit length; others have none yet."""
    digest: str = ""
    """See `server_digest`; empty unless every tool has a vector."""


def by_server(documents: Iterable[Document]) -> dict[str, list[Document]]:
    """Returns the tools of each server, in their order."""
    found: dict[str, list[Document]] = {}
    for document in documents:
        found.setdefault(document.server, []).append(document)
    return found


def server_digest(model: str, documents: Sequence[Document]) -> str:
    """Returns what stands for the tools of a server with the vectors of a model."""
    content = msgspec.msgpack.encode((model, sorted(documents, key=attrgetter("id"))))
    return hashlib.sha256(content).hexdigest()


async def replace_server(
    connection: Connection, memory: IndexMemory, row: IndexRow, tools: ServerTools
) -> bool:
    """Writes what a server's tools are from now on, in the transaction of a connection.

    Args:
        connection: Has locked the index's row.
        memory: The index as of that row.
        row: The index's row.
        tools: What the server's tools are.

    Returns:
        Whether tools were added, removed or changed; new vectors alone do not count.
    """
    at = memory.server_numbers.get(tools.server, -1)
    if at < 0 and not tools.documents:
        return False
    number = len(memory.servers) if at < 0 else at
    former = {
        each["id"]: each
        for each in await connection.fetch(
            "select number, server, id, name, document, words, lengths, executes, vector "
            "from toolscript.candidate_tool where index_id = $1 and server = $2",
            *(row.id, at),
        )
    }
    capabilities = CapabilityReader(memory.vocabulary.stemmer)
    new_words: dict[str, int] = {}

    def number_of(word: str) -> int:
        known = memory.vocabulary.get(word)
        start = len(memory.vocabulary.words)
        return new_words.setdefault(word, start + len(new_words)) if known is None else known

    added: list[ToolRecord] = []
    rows: list[tuple[object, ...]] = []
    numbers: dict[str, int] = {}
    for document in tools.documents:
        known = former.get(document.id)
        if known is not None and known["document"] == msgspec.msgpack.encode(document):
            numbers[document.id] = known["number"]
            continue
        numbers[document.id] = row.next_number + len(added)
        purpose = capabilities.purpose(document)
        columns = _columns(document, token_ids(document, number_of), purpose)
        identifier, name, _, words, lengths, _, executes = columns
        rows.append((row.id, numbers[document.id], number, *columns, None))
        added.append(
            ToolRecord(numbers[identifier], number, identifier, name, words, lengths, executes)
        )
    removed = [
        ToolRecord(
            *(each[n] for n in ("number", "server", "id", "name", "words", "lengths", "executes"))
        )
        for each in former.values()
        if numbers.get(each["id"]) != each["number"]
    ]
    if not (added or removed):
        await _write_vectors(connection, row, number, tools, numbers)
        await _note_digest(connection, row.id, number, tools.digest)
        return False
    gone = [tool.number for tool in removed]
    for table in ("tool", f"vector_{row.id}"):
        scope = f"index_id = {row.id} and " if table == "tool" else ""
        await connection.execute(
            f"delete from toolscript.candidate_{table} where {scope}number = any($1)",  # noqa: S608 - ours
            gone,
        )
    await connection.copy_records_to_table(
        "candidate_tool", records=rows, columns=_TOOL_COLUMNS, schema_name="toolscript"
    )
    if at < 0:
        await connection.execute(
            "insert into toolscript.candidate_server (index_id, number, name, mean) "
            "values ($1, $2, $3, '')",
            *(row.id, number, tools.server),
        )
    await _write_vectors(connection, row, number, tools, numbers)
    await _note_digest(connection, row.id, number, tools.digest)
    change = Change([tools.server] if at < 0 else [], list(new_words), removed, added)
    await connection.execute(
        "insert into toolscript.candidate_change values ($1, $2, $3)",
        *(row.id, row.position + 1, msgspec.msgpack.encode(change)),
    )
    await connection.execute(
        "update toolscript.candidate_index set position = $2, next_number = $3 where id = $1",
        *(row.id, row.position + 1, row.next_number + len(added)),
    )
    return True


async def _note_digest(connection: Connection, index_id: int, server: int, digest: str) -> None:
    await connection.execute(
        "update toolscript.candidate_server set digest = $3 where index_id = $1 and number = $2",
        *(index_id, server, digest),
    )


async def _write_vectors(
    connection: Connection,
    row: IndexRow,
    server: int,
    tools: ServerTools,
    numbers: Mapping[str, int],
) -> None:
    """Writes the vectors of a server's tools that are new, or that its other tools have moved."""
    embedded = [each.id for each in tools.documents if each.id in tools.vectors]
    if not embedded:
        return
    rows = np.stack([tools.vectors[identifier] for identifier in embedded])
    context = ServerContext.of([tools.server] * len(embedded), rows, row.basis)
    wanted = _halfvecs(context.moved(rows))
    table = f"toolscript.candidate_vector_{row.id}"
    places = [numbers[identifier] for identifier in embedded]
    known: dict[int, bytes] = dict(
        await connection.fetch(
            f"select number, halfvec_send(embedding) from {table} where number = any($1)",  # noqa: S608 - ours
            places,
        )
    )
    changed = [n for n, place in enumerate(places) if known.get(place) != wanted[n].tobytes()]
    if not changed:
        return
    stale = [places[n] for n in changed]
    await connection.execute(f"delete from {table} where number = any($1)", stale)  # noqa: S608 - ours
    await _copy_vectors(connection, row.id, stale, [server] * len(stale), wanted[changed])
    await connection.execute(
        "update toolscript.candidate_tool set vector = new.vector "
        "from unnest($2::integer[], $3::bytea[]) as new (number, vector) "
        "where index_id = $1 and candidate_tool.number = new.number",
        *(row.id, stale, [_halves(each) for each in rows[changed]]),
    )
    await connection.execute(
        "update toolscript.candidate_server set mean = $3 where index_id = $1 and number = $2",
        *(row.id, server, _halves(context.means[0]) or b""),
    )


async def fold(connection: Connection, row: IndexRow, stemmer: Stemmer) -> int:
    """Merges the changes into the posting blocks, in the transaction of a connection.

    Changes that are made in the meantime are not among them, and stay. Returns the number of
    changes that were merged; 0 where another process merges them.
    """
    if not await connection.fetchval("select pg_try_advisory_xact_lock($1, $2)", _FOLDING, row.id):
        return 0
    vocabulary = Vocabulary(stemmer)
    words = await connection.fetch(
        "select word, count from toolscript.candidate_word where index_id = $1 order by number",
        row.id,
    )
    for word, _ in words:
        _ = vocabulary[word]
    contents = await connection.fetch(
        "select content from toolscript.candidate_change "
        "where index_id = $1 and position between $2 and $3 order by position",
        *(row.id, row.folded_position + 1, row.position),
    )
    changes = [msgspec.msgpack.decode(content, type=Change) for (content,) in contents]
    for word in chain.from_iterable(change.words for change in changes):
        _ = vocabulary[word]
    stems = await connection.fetch(
        "select number, frequency, openings from toolscript.candidate_stem "
        "where index_id = $1 order by number",
        row.id,
    )
    counts = WordCounts(vocabulary, row.folded_size, np.array(row.folded_lengths, np.int64))
    counts.grow()
    counts.words[: len(words)] = [count for _, count in words]
    for number, frequency, openings in stems:
        counts.frequencies[number], counts.openings[number] = frequency, openings
    removed = {tool.number for change in changes for tool in change.removed}
    tools = [tool for change in changes for tool in change.added]
    for change in changes:
        counts.count([tool.token_ids for tool in change.removed], -1)
        counts.count([tool.token_ids for tool in change.added], 1)
    averages = counts.lengths / max(1, counts.size)
    kept = [tool for tool in tools if tool.number not in removed]
    added, places, impacts = entries_of([t.token_ids for t in kept], vocabulary, averages)
    numbers = np.array([tool.number for tool in kept], np.int32)
    gone = [t.token_ids for change in changes for t in change.removed]
    touched = set(added.tolist()) | {
        int(stem) for tool in gone for stem in np.array(vocabulary.stem_of)[tool.numbers].tolist()
    }
    later = added, numbers[places], impacts
    dropped = np.array(sorted(removed), np.int32)
    for stems_ in _chunks(sorted(touched)):
        await _fold_stems(connection, row.id, stems_, later, dropped)
    await _replace_counts(connection, row.id, counts)
    await connection.execute(
        "delete from toolscript.candidate_change where index_id = $1 and position <= $2",
        *(row.id, row.position),
    )
    await connection.execute(
        "update toolscript.candidate_index set folded_position = $2, folded_number = $3, "
        "folded_size = $4, folded_lengths = $5 where id = $1",
        *(row.id, row.position, row.next_number, counts.size, counts.lengths.tolist()),
    )
    return len(changes)


async def _fold_stems(
    connection: Connection,
    index_id: int,
    stems: Sequence[int],
    later: Entries,
    dropped: NDArray[np.int32],
) -> None:
    """Writes the blocks of some stems again, with later entries and without dropped tools."""
    rows = await connection.fetch(
        "delete from toolscript.candidate_posting where index_id = $1 and stem = any($2) "
        "returning stem, block, tools, impacts",
        *(index_id, stems),
    )
    parts: list[Entries] = []
    for stem, _, tools, impacts in sorted(rows, key=lambda each: (each[0], each[1])):
        numbers, values = np.frombuffer(tools, "<i4"), np.frombuffer(impacts, "<f2")
        kept = ~np.isin(numbers, dropped)
        parts.append((np.full(int(kept.sum()), stem, np.int32), numbers[kept], values[kept]))
    among = np.isin(later[0], stems)
    parts.append((later[0][among], later[1][among], later[2][among]))
    blocks = ((index_id, *block) for block in blocks_of(sorted_entries(parts)))
    await _copy(connection, "posting", ("stem", "block", "tools", "impacts"), blocks)


async def _replace_counts(connection: Connection, index_id: int, counts: WordCounts) -> None:
    for table in ("word", "stem"):
        await connection.execute(
            f"delete from toolscript.candidate_{table} where index_id = $1",  # noqa: S608 - ours
            index_id,
        )
    words = enumerate(zip(counts.vocabulary.words, counts.words.tolist(), strict=True))
    stems = enumerate(zip(counts.frequencies.tolist(), counts.openings.tolist(), strict=True))
    word_rows, stem_rows = ([(index_id, n, *each) for n, each in rows] for rows in (words, stems))
    await _copy(connection, "word", ("number", "word", "count"), word_rows)
    await _copy(connection, "stem", ("number", "frequency", "openings"), stem_rows)


def _chunks(stems: Sequence[int], size: int = 5_000) -> Iterator[Sequence[int]]:
    return (stems[first : first + size] for first in range(0, len(stems), size))


def _begin(database: Database, catalogue: str, model: str, common: Vectors) -> _Builder:
    """Creates an index with nothing in it."""

    async def begin(connection: Connection) -> int:
        if await connection.fetchval(_HAS_VECTORS) is None:
            raise ConfigError(
                "the database has no pgvector, which an index needs; install it on the server"
            )
        await connection.execute("create extension if not exists vector")
        number: int = await connection.fetchval(
            "insert into toolscript.candidate_index (catalogue, model, common) "
            "values ($1, $2, $3) returning id",
            *(catalogue, model, common.astype("<f4").tobytes()),
        )
        await connection.execute(
            f"create table toolscript.candidate_vector_{number} (number integer not null, "
            f"server integer not null, embedding halfvec({common.size}) storage plain not null)"
        )
        return number

    return _Builder(database.run(begin), model, Basis(common, 1.0))


async def _load(
    builder: _Builder, documents: Sequence[Document], vectors: Vectors, connection: Connection
) -> None:
    """Adds a batch of tools with their vectors."""
    first = builder.size
    await connection.copy_records_to_table(
        "candidate_tool",
        records=list(builder.rows(documents, vectors)),
        columns=_TOOL_COLUMNS,
        schema_name="toolscript",
        timeout=BUILD_TIMEOUT_S,
    )
    known = np.flatnonzero(vectors.any(axis=1))
    if not known.size:
        return
    names = [documents[row].server for row in known.tolist()]
    rows = vectors[known]
    context = ServerContext.of(names, rows, builder.basis)
    waiting = {documents[row].server for row in np.flatnonzero(~vectors.any(axis=1)).tolist()}
    for name, tools in by_server(documents).items():
        if name not in waiting:
            builder.digests[name] = server_digest(builder.model, tools)
    builder.lengths_of_vectors.append(context.lengths[0])
    builder.means.update(zip(dict.fromkeys(names), map(_halves, context.means), strict=True))
    servers = [builder.servers[name] for name in names]
    numbers = (known + first).tolist()
    await _copy_vectors(connection, builder.id, numbers, servers, _halfvecs(context.moved(rows)))


def _halves(vector: Vectors) -> bytes | None:
    """Returns a vector as it is stored: float16; None for zeros."""
    return vector.astype("<f2").tobytes() if vector.any() else None


def vectors_of(stored: Sequence[bytes]) -> Vectors:
    """Returns stored vectors: float32 [n, dim]."""
    halves = np.frombuffer(b"".join(stored), "<f2").reshape(len(stored), -1)
    return halves.astype(np.float32)


def _halfvecs(vectors: Vectors) -> NDArray[np.uint8]:
    """Returns vectors as pgvector sends its ``halfvec``: uint8 [n, 4 + 2 · dim]."""
    count, dimensions = vectors.shape
    sent = np.zeros((count, 2 + dimensions), ">u2")
    sent[:, 0] = dimensions
    sent[:, 2:] = vectors.astype(">f2").view(">u2")
    return sent.view(np.uint8)


async def _copy_vectors(
    connection: Connection,
    index_id: int,
    numbers: Sequence[int],
    servers: Sequence[int],
    halfvecs: NDArray[np.uint8],
) -> None:
    """Adds vectors in the binary format of ``copy``."""
    size = halfvecs.shape[1]
    layout = [
        *(("columns", ">i2"), ("number_size", ">i4"), ("number", ">i4")),
        *(("server_size", ">i4"), ("server", ">i4"), ("vector_size", ">i4")),
        ("vector", "u1", (size,)),
    ]
    rows = np.zeros(len(numbers), layout)
    rows["columns"], rows["number_size"], rows["server_size"] = 3, 4, 4
    rows["vector_size"], rows["vector"] = size, halfvecs
    rows["number"], rows["server"] = numbers, servers
    header = b"PGCOPY\n\xff\r\n\0" + bytes(8)
    await connection.copy_to_table(
        f"candidate_vector_{index_id}",
        source=io.BytesIO(header + rows.tobytes() + b"\xff\xff"),
        columns=("number", "server", "embedding"),
        schema_name="toolscript",
        format="binary",
        timeout=BUILD_TIMEOUT_S,
    )


async def _copy(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    await connection.copy_records_to_table(
        f"candidate_{table}",
        records=rows,
        columns=("index_id", *columns),
        schema_name="toolscript",
        timeout=BUILD_TIMEOUT_S,
    )


def _columns(
    document: Document, tool: TokenIds, purpose: Purpose
) -> tuple[str, str, bytes, bytes, bytes, str, bool]:
    """Returns what is stored of a tool: id, name, document, words, lengths and its purpose."""
    return (
        document.id,
        document.name,
        msgspec.msgpack.encode(document),
        tool.numbers.astype("<i4").tobytes(),
        tool.lengths.astype("<i4").tobytes(),
        "\n".join(purpose.capabilities),
        purpose.executes,
    )
