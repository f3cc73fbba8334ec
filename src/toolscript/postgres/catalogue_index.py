"""The rows of the index of a large catalogue in PostgreSQL.

pgvector (HNSW) finds the nearest vectors and the nearest spellings. Of words there is a plain
table: for each stem the tools in which it counts most. All of it is derived, and built anew by
`catalogue_build.rebuild`, in a schema of its own.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.postgres.driver import Connection, driver
from toolscript.retrieval.base import AnalyzedTool, CatalogueStatistics
from toolscript.types import Document

STORE = "catalogue-index"
"""The kind of the index in the change feed."""
BUILD_TIMEOUT_S = 4 * 3600.0
_PAIR_BITS, _LETTER_BITS = 224, 32

_CURRENT = """
select id, model, common, scale, position, size, lengths from toolscript.catalogue_index
where catalogue = $1 and is_current
"""
_SCHEMA_OF_VECTOR = """
select nspname::text from pg_extension join pg_namespace on pg_namespace.oid = extnamespace
where extname = 'vector'
"""
SERVER_COLUMNS = ("number", "name", "size", "digest", "mean")
TOOL_COLUMNS = (
    *("number", "server", "id", "name", "qualified", "document"),
    *("stems", "openings", "purpose", "executes", "vector"),
)


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The row of an index in the database."""

    id: int
    model: str
    common: bytes
    scale: float
    position: int
    size: int
    lengths: Sequence[int]

    @classmethod
    async def current(
        cls, connection: Connection, catalogue: str, lock: str = ""
    ) -> "IndexRow | None":
        """Returns the row of a catalogue's index; None if there is none."""
        row = await connection.fetchrow(f"{_CURRENT} {lock}", catalogue)
        return None if row is None else cls(*row)

    @property
    def schema(self) -> str:
        """The schema that has the index's tables."""
        return schema_of(self.id)

    @property
    def statistics(self) -> CatalogueStatistics:
        """What all tools tell together."""
        common = np.frombuffer(self.common, "<f4")
        lengths = tuple(self.lengths)
        return CatalogueStatistics(self.id, self.model, self.size, lengths, common, self.scale)


def schema_of(index: int) -> str:
    """Returns the name of the schema that has the tables of an index."""
    return f"toolscript_index_{index}"


def tool_row(number: int, server: int, tool: AnalyzedTool) -> tuple[object, ...]:
    """Returns the row of a tool: see `TOOL_COLUMNS`."""
    return (
        number,
        server,
        tool.document.id,
        tool.name,
        tool.qualified,
        msgspec.msgpack.encode(tool.document),
        "\n".join(map(" ".join, tool.stems)),
        " ".join(tool.openings),
        "\n".join(tool.capabilities),
        tool.executes,
        tool.vector,
    )


def server_digest(model: str, documents: Sequence[Document]) -> str:
    """Returns a digest of the tools of a server with the vectors of a model."""
    content = msgspec.msgpack.encode((model, sorted(documents, key=attrgetter("id"))))
    return hashlib.sha256(content).hexdigest()


def digest_of(model: str, tools: Sequence[AnalyzedTool]) -> str:
    """Returns the digest of a server's tools; an empty text unless every one has a vector."""
    if any(tool.vector is None for tool in tools):
        return ""
    return server_digest(model, [tool.document for tool in tools])


def signature(spelling: str) -> Any:
    """Returns which letters and which pairs of neighbours a spelling has, as bits."""
    pairs = ((ord(a) * 37 + ord(b)) % _PAIR_BITS for a, b in pairwise(f"^{spelling}$"))
    letters = (_PAIR_BITS + ord(letter) % _LETTER_BITS for letter in spelling)
    bits = bytearray((_PAIR_BITS + _LETTER_BITS) // 8)
    for place in {*pairs, *letters}:
        bits[place // 8] |= 128 >> place % 8
    return driver().BitString.frombytes(bytes(bits))


async def copy_rows(
    connection: Connection,
    schema: str,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> None:
    """Adds rows to a table of an index; a value for a ``halfvec`` is an array."""
    where = await connection.fetchval(_SCHEMA_OF_VECTOR)
    await connection.set_type_codec(
        "halfvec", schema=where, encoder=_halves, decoder=vector_of, format="binary"
    )
    await connection.copy_records_to_table(
        table, records=rows, columns=columns, schema_name=schema, timeout=BUILD_TIMEOUT_S
    )


def _halves(vector: Vectors) -> bytes:
    return np.array([vector.size, 0], ">i2").tobytes() + vector.astype(">f2").tobytes()


def vector_of(stored: bytes) -> Vectors:
    """Returns a vector as ``halfvec_send`` gives it: float32 [dim]."""
    return np.frombuffer(stored, ">f2", offset=4).astype(np.float32)
