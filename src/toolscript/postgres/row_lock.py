"""Locks in the database that only a role with the right to write can hold."""

from toolscript.postgres.driver import Connection
from toolscript.postgres.schema import CATALOGUE

_LOCK = """
insert into toolscript.record (catalogue, store, name) values ($1, $2, $3)
on conflict (catalogue, store, name) do update set version = record.version
"""


async def lock_row(connection: Connection, store: str, name: str) -> None:
    """Locks a name until the transaction of a connection ends.

    An advisory lock would need no right: who may only read could keep it from every writer.
    """
    await connection.execute(_LOCK, CATALOGUE, store, name)
