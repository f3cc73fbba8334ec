"""``toolscript database migrate|status|import|export|rotate-key``."""

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from toolscript.config.locations import key_of
from toolscript.config.settings import load_settings
from toolscript.errors import ConfigError
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_json, print_table
from toolscript.surfaces.server.config_sources import config_files, load
from toolscript.text.display import counted, printable

if TYPE_CHECKING:
    from toolscript.bootstrap import Administration
    from toolscript.storage.database_status import CatalogueStatus, DatabaseStatus

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
    ran, version = _administration(flags).migrate(target)
    done = f"ran {counted(ran, 'migration')}" if ran else "nothing to do"
    click.echo(f"schema {version}: {done}")


@database.command()
@output_option
@settings_options("data_dir")
def status(output: str, **flags: Any) -> None:
    """Show the tables, what is stored, and the gateways.

    Lag is for how long an open transaction has kept a change from the gateways. The exit status
    is 2 where this release does not work with the tables.
    """
    show = _print_json if output == "json" else _print_status
    _administration(flags).show_status(show)


@database.command("import")
@replace_option
@settings_options("config", "data_dir")
def import_(replace: bool, **flags: Any) -> None:
    """Copy the data directory into the database.

    That is: tokens, pins, answers, questions, logins, what is known of the servers, the graph, the
    newest calls, and the tools' vectors. Stop the gateway that uses the directory first.
    """
    _copy(flags, replace=replace, imports=True)


@database.command()
@replace_option
@settings_options("config", "data_dir")
def export(replace: bool, **flags: Any) -> None:
    """Copy the database into the data directory.

    A gateway without a database can go on from there. Logins, which the database keeps encrypted,
    become files that only their owner can read.
    """
    _copy(flags, replace=replace, imports=False)


@database.command("rotate-key")
@settings_options("data_dir")
def rotate_key(**flags: Any) -> None:
    """Encrypt every login with the current key.

    One that neither key can decrypt is left as it is and named; the exit status is then 2.
    Until then gateways need the former key as TOOLSCRIPT_SECRET_KEY_PREVIOUS.
    """
    sealed, unread = _administration(flags).seal_again()
    click.echo(f"{counted(sealed, 'login')} encrypted with the current key")
    if unread:
        names = ", ".join(printable(name, 80) for name in unread)
        raise ConfigError(
            f"neither secret key has sealed {counted(len(unread), 'login')}: {names}; "
            "log in to these servers again with: toolscript auth NAME"
        )


def _administration(flags: dict[str, Any]) -> "Administration":
    from toolscript import bootstrap  # noqa: PLC0415 - most commands need no database

    return bootstrap.administration(load_settings(flags))


def _copy(flags: dict[str, Any], *, replace: bool, imports: bool) -> None:
    paths = load_settings(flags).paths
    files = paths.data_dir, key_of(config_files(paths)), load(paths).servers_hash
    counts = _administration(flags).copy(files, _run, imports=imports, replace=replace)
    print_table(["Store", "Copied"], [[name, str(count)] for name, count in counts.items()])


def _run(steps: Mapping[str, Callable[[], int]]) -> dict[str, int]:
    """Runs steps, with a bar on a terminal, and returns their results."""
    counts: dict[str, int] = {}
    hidden = not sys.stderr.isatty()
    with click.progressbar(
        steps.items(), file=sys.stderr, hidden=hidden, item_show_func=lambda i: i and i[0]
    ) as bar:
        for name, step in bar:
            counts[name] = step()
    return counts


def _print_json(state: "DatabaseStatus") -> None:
    print_json(msgspec.to_builtins(state))


def _print_status(found: "DatabaseStatus") -> None:
    for label, text in (
        ("server", f"PostgreSQL {found.server}"),
        ("schema", f"{found.schema}, this release needs {found.needed}"),
    ):
        click.echo(f"{label:<10}{text}")
    if found.catalogues:
        click.echo()
        counts = ("Servers", "Tools", "Tokens", "Logins", "Pins")
        header = ["Catalogue", *counts, "Gateways"]
        print_table(header, [*map(_row, found.catalogues)], 0)
    replicas = [[c.name, r.id, r.url, r.version] for c in found.catalogues for r in c.replicas]
    if replicas:
        click.echo()
        print_table(["Catalogue", "Gateway", "Address", "Version"], replicas, 2)


def _row(catalogue: "CatalogueStatus") -> list[str]:
    c = catalogue
    counts = c.servers, c.tools, c.tokens, c.logins, c.pins
    return [c.name, *map(str, counts), str(len(c.replicas))]
