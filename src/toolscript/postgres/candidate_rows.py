"""Encodes the tools, vectors and words of the index in the database as rows."""

import hashlib
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.postgres.driver import Connection
from toolscript.postgres.word_counts import WordCounts
from toolscript.retrieval.capability import Purpose
from toolscript.retrieval.lexical.analyzer import TokenIds
from toolscript.types import Document

STORE = "candidates"
"""The kind of the index in the change feed."""
BUILD_TIMEOUT_S = 4 * 3600.0
TOOL_COLUMNS = (
    *("index_id", "number", "server", "id", "name", "document", "words", "lengths"),
    *("purpose", "executes", "vector", "components"),
)


class CandidateRow(NamedTuple):
    """What scores a candidate, as ``candidate_tool`` and ``candidate_server`` have it."""

    number: int
    document: bytes
    words: bytes
    lengths: bytes
    purpose: str
    executes: bool
    vector: bytes | None
    server: int
    mean: bytes
    """See `ServerContext`; empty for zeros."""


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


def tool_columns(
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


def document_of(row: CandidateRow) -> Document:
    """Returns the tool of a row."""
    return msgspec.msgpack.decode(row.document, type=Document)


def halves(vector: Vectors) -> bytes | None:
    """Returns a vector as it is stored: float16; None for zeros."""
    return vector.astype("<f2").tobytes() if vector.any() else None


def vectors_of(stored: Sequence[bytes]) -> Vectors:
    """Returns stored vectors: float32 [n, dim]."""
    halves = np.frombuffer(b"".join(stored), "<f2").reshape(len(stored), -1)
    return halves.astype(np.float32)


async def copy_rows(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    """Adds rows to a table of the index."""
    await connection.copy_records_to_table(
        f"candidate_{table}",
        records=rows,
        columns=("index_id", *columns),
        schema_name="toolscript",
        timeout=BUILD_TIMEOUT_S,
    )


async def copy_counts(connection: Connection, index_id: int, counts: WordCounts) -> None:
    """Adds the rows of all words and stems."""
    words = enumerate(zip(counts.vocabulary.words, counts.words.tolist(), strict=True))
    stems = enumerate(zip(counts.frequencies.tolist(), counts.openings.tolist(), strict=True))
    word_rows, stem_rows = ([(index_id, n, *each) for n, each in rows] for rows in (words, stems))
    await copy_rows(connection, "word", ("number", "word", "count"), word_rows)
    await copy_rows(connection, "stem", ("number", "frequency", "openings"), stem_rows)
