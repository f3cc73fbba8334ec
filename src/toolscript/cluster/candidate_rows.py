"""Encodes the tools, vectors and words of the index in the database as rows."""

import hashlib
import io
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from toolscript.cluster.driver import Connection
from toolscript.cluster.resident_index import WordCounts
from toolscript.embedding.base import Vectors
from toolscript.retrieval.capability import Purpose
from toolscript.retrieval.lexical.analyzer import TokenIds
from toolscript.types import Document

STORE = "candidates"
"""The kind of the index in the change feed."""
BUILD_TIMEOUT_S = 4 * 3600.0
TOOL_COLUMNS = (
    *("index_id", "number", "server", "id", "name", "document", "words", "lengths"),
    *("purpose", "executes", "vector"),
)


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


def halves(vector: Vectors) -> bytes | None:
    """Returns a vector as it is stored: float16; None for zeros."""
    return vector.astype("<f2").tobytes() if vector.any() else None


def vectors_of(stored: Sequence[bytes]) -> Vectors:
    """Returns stored vectors: float32 [n, dim]."""
    halves = np.frombuffer(b"".join(stored), "<f2").reshape(len(stored), -1)
    return halves.astype(np.float32)


def halfvecs(vectors: Vectors) -> NDArray[np.uint8]:
    """Returns vectors as pgvector sends its ``halfvec``: uint8 [n, 4 + 2 · dim]."""
    count, dimensions = vectors.shape
    sent = np.zeros((count, 2 + dimensions), ">u2")
    sent[:, 0] = dimensions
    sent[:, 2:] = vectors.astype(">f2").view(">u2")
    return sent.view(np.uint8)


async def copy_vectors(
    connection: Connection,
    index_id: int,
    numbers: Sequence[int],
    servers: Sequence[int],
    sent: NDArray[np.uint8],
) -> None:
    """Adds vectors in the binary format of ``copy``."""
    size = sent.shape[1]
    layout = [
        *(("columns", ">i2"), ("number_size", ">i4"), ("number", ">i4")),
        *(("server_size", ">i4"), ("server", ">i4"), ("vector_size", ">i4")),
        ("vector", "u1", (size,)),
    ]
    rows = np.zeros(len(numbers), layout)
    rows["columns"], rows["number_size"], rows["server_size"] = 3, 4, 4
    rows["vector_size"], rows["vector"] = size, sent
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
