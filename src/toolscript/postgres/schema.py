"""The tables in the database: numbered SQL files, run in one transaction, each once.

A release works with the schema of its own number and with the next one. So the first gateway of a
release may migrate the schema while those of the release before go on.
"""

from functools import cache
from importlib import resources

from toolscript.errors import SchemaVersionError
from toolscript.postgres.driver import Connection
from toolscript.postgres.graph_rows import take_over_events

NAME = "toolscript"
"""The PostgreSQL schema that holds every table."""
CATALOGUE = "default"
"""The value of the column ``catalogue``: rows with another one are not seen."""
_GRAPH_COUNTS = 3
"""The migration whose tables get what older ones have, in a form that SQL cannot read."""
_LOCK = 0x746F6F6C  # "tool", for pg_advisory_xact_lock
_LOCK_ROW = """
insert into toolscript.record (catalogue, store, name) values ($1, $2, $3)
on conflict (catalogue, store, name) do update set version = record.version
"""
_FORMER_DATA = """
select format('drop schema %I cascade', nspname) from pg_namespace
where nspname ~ '^toolscript_index_[0-9]+$'
union select 'drop table toolscript.catalogue_index' from pg_tables
where schemaname = 'toolscript' and tablename = 'catalogue_index'
union select $$delete from toolscript.record where store = 'questions'$$
from toolscript.record where store = 'questions'
union select $$delete from toolscript.record where catalogue <> 'default'$$
from toolscript.record where catalogue <> 'default'
union select $$delete from toolscript.call where catalogue <> 'default'$$
from toolscript.call where catalogue <> 'default'
order by 1
"""


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Returns the number and the statements of every migration, in their order."""
    folder = resources.files("toolscript.postgres") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple((int(file.name[:4]), file.read_text("utf-8")) for file in files)


def latest() -> int:
    """Returns the version of the schema that this release needs."""
    return migrations()[-1][0]


async def version_of(connection: Connection) -> int:
    """Returns the version of the schema in the database; 0 if there is none."""
    # Not to_regclass, which may not see what another transaction has made since this one began.
    tables = "select 1 from pg_tables where schemaname = $1 and tablename = 'schema_version'"
    if await connection.fetchval(tables, NAME) is None:
        return 0
    return await connection.fetchval(f"select max(version) from {NAME}.schema_version") or 0  # noqa: S608 - ours


async def check(connection: Connection) -> None:
    """Raises `SchemaVersionError` unless this release works with the schema in the database."""
    version = await version_of(connection)
    if version not in {latest(), latest() + 1}:
        made = "install the release of toolscript that made it"
        advice = "restart the gateway" if version < latest() else made
        raise SchemaVersionError(
            f"the database has schema {version}, this release needs {latest()}; {advice}"
        )


async def find_former_data(connection: Connection) -> str:
    """Returns the SQL that removes the data of former releases that nothing reads any more."""
    return "; ".join(line for (line,) in await connection.fetch(_FORMER_DATA))


async def migrate(connection: Connection) -> None:
    """Brings the schema up to the latest version, in the transaction of the connection.

    Raises `SchemaVersionError` if this release does not work with a later schema.
    """
    if await version_of(connection) < latest():  # else no start waits for the lock
        await _run_migrations(connection)
    await check(connection)


async def _run_migrations(connection: Connection) -> None:
    """Runs those that are left; one process at a time."""
    await connection.execute(f"select pg_advisory_xact_lock({_LOCK})")
    version = await version_of(connection)
    await connection.execute(f"create schema if not exists {NAME}")
    await connection.execute(f"set local search_path to {NAME}, public")
    await connection.execute(
        "create table if not exists schema_version "
        "(version integer primary key, migrated_at timestamptz not null default now())"
    )
    for number, statements in migrations():
        if version < number:
            await connection.execute(statements)
            if number == _GRAPH_COUNTS:
                await take_over_events(connection)
            await connection.execute("insert into schema_version (version) values ($1)", number)


async def lock_row(connection: Connection, store: str, name: str) -> None:
    """Locks a name until the transaction of a connection ends.

    An advisory lock would need no right: who may only read could keep it from every writer.
    """
    await connection.execute(_LOCK_ROW, CATALOGUE, store, name)
