"""Writes to PostgreSQL what a server's tools are, for searches of a large catalogue.

A tool that changes gets another number, so that whatever was written about the former one only has
to be left out. Changes are made one after the other: each locks the index's row, which also gives
out the numbers of tools, servers and words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from toolscript.embedding.base import Vectors
from toolscript.postgres.candidate_rows import TOOL_COLUMNS, halves, tool_columns
from toolscript.postgres.driver import Connection
from toolscript.postgres.index_records import IndexChange, IndexRow, ToolRecord
from toolscript.postgres.resident_index import IndexMemory
from toolscript.retrieval.capability import CapabilityReader
from toolscript.retrieval.lexical.analyzer import token_ids
from toolscript.retrieval.semantic.server_context import ServerContext
from toolscript.types import Document


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
        Whether tools or vectors were added, removed or changed.

    Raises:
        ValueError: The memory is of another moment: numbers would be given twice.
    """
    if (memory.id, memory.snapshot.position) != (row.id, row.position):
        raise ValueError("the memory is not as the index is")
    at = memory.server_numbers.get(tools.server, -1)
    if at < 0 and not tools.documents:
        return False
    number = len(memory.servers) if at < 0 else at
    former = {
        each["id"]: each
        for each in await connection.fetch(
            "select number, server, id, name, document, words, lengths, executes, "
            "vector, components from toolscript.candidate_tool where index_id = $1 and server = $2",
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
        columns = tool_columns(document, token_ids(document, number_of), purpose)
        identifier, name, _, words, lengths, text, executes = columns
        rows.append((row.id, numbers[document.id], number, *columns, None, None))
        added.append(
            ToolRecord(
                numbers[identifier], number, identifier, name, words, lengths, executes, text
            )
        )
    removed = [
        ToolRecord(
            *(each[n] for n in ("number", "server", "id", "name", "words", "lengths", "executes"))
        )
        for each in former.values()
        if numbers.get(each["id"]) != each["number"]
    ]
    vectors = _changed_vectors(memory, tools, numbers, former)
    await _note_digest(connection, row.id, number, tools.digest)
    if not (added or removed or vectors.components):
        return False
    await connection.execute(
        "delete from toolscript.candidate_tool where index_id = $1 and number = any($2)",
        *(row.id, [tool.number for tool in removed]),
    )
    await connection.copy_records_to_table(
        "candidate_tool", records=rows, columns=TOOL_COLUMNS, schema_name="toolscript"
    )
    if at < 0:
        await connection.execute(
            "insert into toolscript.candidate_server (index_id, number, name, mean, digest) "
            "values ($1, $2, $3, '', $4)",
            *(row.id, number, tools.server, tools.digest),
        )
    await vectors.write(connection, row.id, number)
    servers = [tools.server] if at < 0 else []
    change = IndexChange(servers, list(new_words), removed, added, vectors.components)
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


@dataclass(frozen=True, slots=True)
class _Vectors:
    """The vectors of a server's tools that are new, or that its other tools have moved."""

    mean: bytes = b""
    """See `ServerContext`; empty while no tool of the server has a vector."""
    vectors: list[bytes | None] = field(default_factory=list[bytes | None])
    components: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    """See `IndexChange`."""

    async def write(self, connection: Connection, index_id: int, server: int) -> None:
        """Puts them into the rows of the tools, and the mean into their server's."""
        if not self.mean:
            return
        await connection.execute(
            "update toolscript.candidate_tool "
            "set vector = new.vector, components = new.components "
            "from unnest($2::integer[], $3::bytea[], $4::bytea[]) "
            "as new (number, vector, components) "
            "where index_id = $1 and candidate_tool.number = new.number",
            *(index_id, [number for number, _ in self.components], self.vectors),
            [each for _, each in self.components],
        )
        await connection.execute(
            "update toolscript.candidate_server set mean = $3 where index_id = $1 and number = $2",
            *(index_id, server, self.mean),
        )


def _changed_vectors(
    memory: IndexMemory,
    tools: ServerTools,
    numbers: Mapping[str, int],
    former: Mapping[str, Mapping[str, Any]],
) -> _Vectors:
    """Returns what has to be written of a server's vectors.

    Args:
        memory: The index.
        tools: What the server's tools are.
        numbers: Theirs, by their ids.
        former: The rows of its tools in the database, by their ids.
    """
    embedded = [each.id for each in tools.documents if each.id in tools.vectors]
    if not embedded:
        return _Vectors()
    rows = np.stack([tools.vectors[identifier] for identifier in embedded])
    context = ServerContext.of([tools.server] * len(embedded), rows, memory.basis)
    components = memory.components.components_of(context.moved(rows))
    found = _Vectors(halves(context.means[0]) or b"")
    for identifier, vector, moved in zip(embedded, rows, components, strict=True):
        number, known = numbers[identifier], former.get(identifier)
        wanted = halves(vector), moved.tobytes()
        if (
            known is not None
            and known["number"] == number
            and (known["vector"], known["components"]) == wanted
        ):
            continue
        found.vectors.append(wanted[0])
        found.components.append((number, wanted[1]))
    return found
