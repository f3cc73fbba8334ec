"""The tables in the database: numbered SQL files, run in one transaction, each once.

A release works with the schema of its own number and with the next one: so the schema is
migrated first, and the gateways are replaced one by one after that.
"""

from functools import cache
from importlib import resources

from toolscript.errors import SchemaVersionError
from toolscript.postgres.driver import Connection

NAME = "toolscript"
"""The PostgreSQL schema that holds every table."""
_MIGRATE = "toolscript database migrate"
_LOCK = 0x746F6F6C  # "tool", for pg_advisory_xact_lock


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
    table = await connection.fetchval("select to_regclass($1)::text", f"{NAME}.schema_version")
    if table is None:
        return 0
    return await connection.fetchval(f"select max(version) from {NAME}.schema_version") or 0  # noqa: S608 - ours


async def check(connection: Connection) -> None:
    """Raises `SchemaVersionError` unless this release works with the schema in the database."""
    version = await version_of(connection)
    if version in {latest(), latest() + 1}:
        return
    advice = (
        f"run: {_MIGRATE}"
        if version < latest()
        else "install the release of toolscript that made it"
    )
    raise SchemaVersionError(
        f"the database has schema {version}, this release needs {latest()}; {advice}"
    )


async def migrate(connection: Connection, target: int | None = None) -> list[int]:
    """Brings the schema up to ``target``, by default to the latest version.

    Runs in the transaction of the connection, one process at a time. Returns the numbers of the
    migrations that ran; none if the schema is as new already.
    """
    wanted = latest() if target is None else target
    if await version_of(connection) >= wanted:  # without the lock, which a start would wait for
        return []
    await connection.execute(f"select pg_advisory_xact_lock({_LOCK})")
    version = await version_of(connection)
    await connection.execute(f"create schema if not exists {NAME}")
    await connection.execute(f"set local search_path to {NAME}, public")
    await connection.execute(
        "create table if not exists schema_version "
        "(version integer primary key, migrated_at timestamptz not null default now())"
    )
    ran: list[int] = []
    for number, statements in migrations():
        if version < number <= wanted:
            await connection.execute(statements)
            await connection.execute("insert into schema_version (version) values ($1)", number)
            ran.append(number)
    return ran
