"""Defines the row of an index in PostgreSQL, and the changes that its gateways follow."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import msgspec
import numpy as np

from toolscript.postgres.driver import Connection
from toolscript.postgres.nearest_neighbors import NearestNeighbors
from toolscript.retrieval.lexical.analyzer import FIELDS, TokenIds
from toolscript.retrieval.semantic.server_context import Basis


class ToolRecord(msgspec.Struct, frozen=True, array_like=True):
    """A tool that a change adds or removes."""

    number: int
    server: int
    id: str
    name: str
    words: bytes
    lengths: bytes
    executes: bool
    purpose: str | None = None
    """The names of its capabilities, one on each line; None if an earlier version wrote it."""

    @property
    def token_ids(self) -> TokenIds:
        """Its words."""
        return token_ids_of(self.words, self.lengths)


class IndexChange(msgspec.Struct, frozen=True, array_like=True):
    """What changes with one transaction."""

    servers: list[str]
    """The names of new servers; their numbers go on from the last."""
    words: list[str]
    """New words; their numbers go on from the last."""
    removed: list[ToolRecord]
    added: list[ToolRecord]
    components: list[tuple[int, bytes]]
    """By the number of a tool, those of its vector, which is new or which its server has moved."""


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The row of an index in the database."""

    id: int
    model: str
    common: bytes
    scale: float
    axes: bytes
    position: int
    next_number: int
    folded_position: int
    folded_number: int
    folded_size: int
    folded_lengths: Sequence[int]

    @classmethod
    def none(cls) -> "IndexRow":
        """Returns the row of an index that is not there."""
        return cls(0, "", b"", 1.0, b"", 0, 0, 0, 0, 0, [0] * len(FIELDS))

    @property
    def basis(self) -> Basis:
        """What all tools had in common when the index was built."""
        return Basis(np.frombuffer(self.common, "<f4"), self.scale)

    def nearest_neighbors(self) -> NearestNeighbors:
        """Returns an index of its tools' components, with none in it."""
        axes = np.frombuffer(self.axes, "<f4").reshape(max(1, self.basis.common.size), -1)
        return NearestNeighbors(axes, self.next_number)

    @classmethod
    async def current(cls, connection: Connection, catalogue: str, lock: str = "") -> "IndexRow":
        """Returns the row of a catalogue's index; one with the id 0 where there is none."""
        return await cls._where(connection, f"catalogue = $1 and is_current {lock}", catalogue)

    @classmethod
    async def by_id(cls, connection: Connection, number: int) -> "IndexRow":
        """Returns the row of an index; one with the id 0 where it is gone."""
        return await cls._where(connection, "id = $1", number)

    @classmethod
    async def _where(cls, connection: Connection, condition: str, value: object) -> "IndexRow":
        columns = ", ".join(field.name for field in fields(cls))
        row = await connection.fetchrow(
            f"select {columns} from toolscript.candidate_index where {condition}",  # noqa: S608 - ours
            value,
        )
        return cls.none() if row is None else cls(*row)


def token_ids_of(words: bytes, lengths: bytes) -> TokenIds:
    """Returns a tool's words as they are stored."""
    return TokenIds(np.frombuffer(words, "<i4"), np.frombuffer(lengths, "<i4"))
