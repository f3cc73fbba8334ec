"""``toolscript database migrate|status|import|export|rebuild|rotate-key``."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import msgspec

from toolscript.config.locations import key_of
from toolscript.config.settings import Settings, load_settings
from toolscript.errors import ConfigError, InputError
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_json, print_table
from toolscript.surfaces.server.config_sources import config_files, load
from toolscript.text.display import counted, printable
from toolscript.types import Document

if TYPE_CHECKING:
    from toolscript.postgres.database import Database
    from toolscript.postgres.shared_stores import SharedStores
    from toolscript.postgres.status import CatalogueStatus, DatabaseStatus
    from toolscript.postgres.transfer import Files, InDatabase
    from toolscript.retrieval.catalogue_analysis import Batch

replace_option = click.option(
    "--replace", is_flag=True, help="Replace what is there already; without, that is refused."
)


@click.group()
def database() -> None:
    """Manage the database that several gateways share.

    Its address is in TOOLSCRIPT_DATABASE.
    """


@database.command()
@click.option(
    "--to",
    "target",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="The version of the tables.  [default: the latest]",
)
@settings_options("data_dir")
def migrate(target: int | None, **flags: Any) -> None:
    """Create the tables, or bring them up to date.

    To be run before gateways of this release start; those of the release before go on.
    """
    from toolscript.postgres import schema  # noqa: PLC0415 - most commands need no database

    if target is not None and target > schema.latest():
        raise InputError(
            f"--to is {target}, but this release knows versions 1 to {schema.latest()}"
        )
    with _connected(load_settings(flags)) as db:
        ran = db.run(lambda connection: schema.migrate(connection, target))
        version = db.run(schema.version_of)
    if target is not None and version > target:
        raise InputError(
            f"the database has schema {version}, and no migration leads back to {target}"
        )
    done = f"ran {counted(len(ran), 'migration')}" if ran else "nothing to do"
    click.echo(f"schema {version}: {done}")


@database.command()
@output_option
@settings_options("data_dir")
def status(output: str, **flags: Any) -> None:
    """Show the tables, what is stored, and the gateways.

    Lag is for how long an open transaction has kept a change from the gateways. The exit status
    is 2 where this release does not work with the tables.
    """
    from toolscript.postgres import schema  # noqa: PLC0415 - most commands need no database
    from toolscript.postgres.status import status  # noqa: PLC0415 - the same

    with _connected(load_settings(flags), direct=False) as db:
        found = db.run(status)
        if output == "json":
            print_json(msgspec.to_builtins(found))
        else:
            _print_status(found)
        db.run(schema.check)


@database.command("import")
@replace_option
@settings_options("config", "data_dir")
def import_(replace: bool, **flags: Any) -> None:
    """Copy the data directory into the database.

    That is: tokens, pins, answers, questions, logins, what is known of the servers, the graph, the
    newest calls, and the tools' vectors. Stop the gateway that uses the directory first.
    """
    _transfer(flags, replace=replace, imports=True)


@database.command()
@replace_option
@settings_options("config", "data_dir")
def export(replace: bool, **flags: Any) -> None:
    """Copy the database into the data directory.

    A gateway without a database can go on from there. Logins, which the database keeps encrypted,
    become files that only their owner can read.
    """
    _transfer(flags, replace=replace, imports=False)


@database.command()
@settings_options("model", "data_dir")
def rebuild(**flags: Any) -> None:
    """Build the index that gateways with TOOLSCRIPT_CANDIDATES=database search.

    It is made of what the gateways have stored of their servers. They go on searching the former
    index until the new one is there; that takes minutes for a hundred thousand tools.
    """
    from toolscript.embedding.loader import Choice, lazy  # noqa: PLC0415 - the same
    from toolscript.postgres import catalogue_build, transfer  # noqa: PLC0415 - most need none
    from toolscript.retrieval.catalogue_analysis import (  # noqa: PLC0415 - the same
        CatalogueAnalyzer,
    )
    from toolscript.retrieval.semantic.semantic_signal import (  # noqa: PLC0415 - the same
        SemanticSignal,
    )

    settings = load_settings(flags)
    with _shared(settings) as shared:
        stored = [entry for entry in transfer.InDatabase(shared).entries() if entry.tools]
        count = sum(len(entry.tools) for entry in stored)
        if not count:
            raise InputError(
                f"the catalogue {shared.catalogue} has no tools yet; they are stored once a "
                "gateway with TOOLSCRIPT_CANDIDATES=memory has listed its servers"
            )
        model = Choice(directory=settings.paths.data_dir / "models", **asdict(settings.embedding))
        analyzer = CatalogueAnalyzer(SemanticSignal(lazy(model), shared.vectors))
        servers = [[Document.of(tool) for tool in entry.tools] for entry in stored]
        hidden = not sys.stderr.isatty()
        with click.progressbar(length=2 * count, file=sys.stderr, hidden=hidden) as bar:

            def batches() -> "Generator[Batch]":
                for batch in analyzer.embed(servers):
                    yield batch
                    bar.update(len(batch[0]))

            statistics = analyzer.statistics(batches())
            analyzed = (analyzer.analyze(*batch, statistics) for batch in batches())
            catalogue_build.rebuild(
                shared.database, shared.catalogue, statistics, analyzed, shared.feed
            )
    click.echo(f"{counted(count, 'tool')} in the index of the catalogue {shared.catalogue}")


@database.command("rotate-key")
@settings_options("data_dir")
def rotate_key(**flags: Any) -> None:
    """Encrypt every login with the current key.

    One that neither key can decrypt is left as it is and named; the exit status is then 2.
    Until then gateways need the former key as TOOLSCRIPT_SECRET_KEY_PREVIOUS.
    """
    with _shared(load_settings(flags)) as shared:
        sealed, unread = shared.logins.seal_again()
    click.echo(f"{counted(sealed, 'login')} encrypted with the current key")
    if unread:
        names = ", ".join(printable(name, 80) for name in unread)
        raise ConfigError(
            f"neither secret key has sealed {counted(len(unread), 'login')}: {names}; "
            "log in to these servers again with: toolscript auth NAME"
        )


@contextmanager
def _connected(settings: Settings, *, direct: bool = True) -> "Generator[Database]":
    """Connects, whatever tables there are; for migrations past a pooler."""
    from toolscript.postgres.database import Database  # noqa: PLC0415 - most need no database
    from toolscript.postgres.shared_stores import address_of  # noqa: PLC0415 - the same

    address = address_of(settings)
    db = Database(settings.database.direct_url or address if direct else address)
    try:
        with _refusals_told():
            db.open(check_schema=False)
            yield db
    finally:
        db.close()


@contextmanager
def _shared(settings: Settings) -> "Generator[SharedStores]":
    from toolscript.postgres.shared_stores import shared_of  # noqa: PLC0415 - most need no database

    shared = shared_of(settings)
    try:
        with _refusals_told():
            shared.open()
            yield shared
    finally:
        shared.close()


@contextmanager
def _refusals_told() -> Generator[None]:
    """Raises a refusal of the server, such as for a missing right, as `ConfigError`."""
    from toolscript.postgres.driver import driver  # noqa: PLC0415 - most need no database

    try:
        yield
    except driver().PostgresError as error:
        raise ConfigError(f"the database refuses that: {error}") from None


def _transfer(flags: dict[str, Any], *, replace: bool, imports: bool) -> None:
    from toolscript.postgres import transfer  # noqa: PLC0415 - most commands need no database

    settings = load_settings(flags)
    key = key_of(config_files(settings.paths))
    files = transfer.Files(settings.paths.data_dir, key, load(settings.paths).servers_hash)
    with _shared(settings) as shared:
        stored = transfer.InDatabase(shared)
        source: Files | InDatabase = files if imports else stored
        target: Files | InDatabase = stored if imports else files
        files.check()
        if not replace and not transfer.is_empty(target):
            where = f"the catalogue {shared.catalogue}" if imports else str(settings.paths.data_dir)
            raise InputError(f"{where} is not empty; replace what is there with: --replace")
        counts = _run(transfer.steps(source, target))
    print_table(["Store", "Copied"], [[name, str(count)] for name, count in counts.items()])


def _run(steps: dict[str, Callable[[], int]]) -> dict[str, int]:
    """Runs steps, with a bar on a terminal, and returns their results."""
    counts: dict[str, int] = {}
    hidden = not sys.stderr.isatty()
    with click.progressbar(
        steps.items(), file=sys.stderr, hidden=hidden, item_show_func=lambda i: i and i[0]
    ) as bar:
        for name, step in bar:
            counts[name] = step()
    return counts


def _print_status(found: "DatabaseStatus") -> None:
    for label, text in (
        ("server", f"PostgreSQL {found.server}"),
        ("schema", f"{found.schema}, this release needs {found.needed}"),
    ):
        click.echo(f"{label:<10}{text}")
    if found.catalogues:
        click.echo()
        header = [
            "Catalogue",
            "Servers",
            "Tools",
            "Tokens",
            "Logins",
            "Pins",
            "Index",
            "Gateways",
        ]
        rows = [_row(catalogue) for catalogue in found.catalogues]
        print_table(header, rows, 0)
    replicas = [[c.name, r.id, r.url, r.version] for c in found.catalogues for r in c.replicas]
    if replicas:
        click.echo()
        print_table(["Catalogue", "Gateway", "Address", "Version"], replicas, 2)


def _row(catalogue: "CatalogueStatus") -> list[str]:
    c = catalogue
    counts = c.servers, c.tools, c.tokens, c.logins, c.pins
    index = f"{counted(c.indexed, 'tool')} at change {c.index_position}" if c.has_index else "none"
    return [c.name, *map(str, counts), index, str(len(c.replicas))]
