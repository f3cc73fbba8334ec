"""Locks in the database that only a role with the right to write can hold."""

from toolscript.postgres.driver import Connection

_LOCK = """
insert into toolscript.record (catalogue, store, name) values ($1, $2, $3)
on conflict (catalogue, store, name) do update set version = record.version
"""


async def lock_row(connection: Connection, catalogue: str, store: str, name: str) -> None:
    """Locks a name until the transaction of a connection ends.

    An advisory lock would need no right: who may only read could keep it from every writer. This
    one gives the transaction an id, so it is for a moment: see `change_feed`.
    """
    await connection.execute(_LOCK, catalogue, store, name)
