"""``toolscript token create|list|revoke|off``."""

from typing import Any

import click

from toolscript.config.access_tokens import Token, TokenStore, grant_for
from toolscript.config.servers import key_of
from toolscript.config.settings import Settings
from toolscript.errors import ConfigError
from toolscript.surfaces.cli.options import output_option, settings_from, settings_options
from toolscript.surfaces.cli.output import note, print_json, print_table
from toolscript.surfaces.server.config_sources import load, sources
from toolscript.types import Grant

_OPEN = "no token: whoever is on this machine may use the gateway"
_CLOSED = (
    "no token is left: the gateway answers only your own commands; make a token with: "
    "toolscript token create, or let in whoever is on this machine with: toolscript token off"
)


@click.group()
def token() -> None:
    """Say who may use which tools of the gateway.

    As soon as there is one token, the gateway answers nobody without, until
    'toolscript token off'.
    """


@token.command()
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME",
    help="Grants this server's tools, or those of a pattern such as git*; may be repeated.",
)
@click.option(
    "--tool",
    "tools",
    multiple=True,
    metavar="ID",
    help="Grants this tool, or a pattern such as git__read_*; may be repeated.",
)
@click.option("--name", default="", help="Whose it is, for the list.")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True, max=36500),
    metavar="NUMBER",
    help="It expires after so many days.  [default: never]",
)
@output_option
@settings_options("config", "data_dir")
def create(
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    name: str,
    days: float | None,
    output: str,
    **flags: Any,
) -> None:
    """Make a token, and print it once: only a hash of it is kept.

    What is granted adds up. With neither --server nor --tool it is everything.
    """
    settings = settings_from(**flags)
    grant = grant_for(servers, tools)
    made, secret = _store(settings).create(grant, name, days)
    _tell_unknown(settings, grant)
    if output == "json":
        print_json({"token": secret, **_row(made)})
        return
    click.echo(secret)
    note(f"grants {_granted(grant)}; take it back with: toolscript token revoke {made.id}")


@token.command("list")
@output_option
@settings_options("config", "data_dir")
def list_(output: str, **flags: Any) -> None:
    """Show the tokens there are, and what each grants."""
    store = _store(settings_from(**flags))
    tokens = store.all()
    if output == "json":
        print_json({"tokens": [_row(each) for each in tokens]})
        return
    if not tokens:
        click.echo(_CLOSED if store.protected else _OPEN)
        return
    rows = [[t.id, t.name, _granted(t.grant), t.created, t.expires or "never"] for t in tokens]
    print_table(["Id", "Name", "Grants", "Made", "Expires"], rows, flexible=2)


@token.command()
@click.argument("identifier", metavar="ID")
@settings_options("config", "data_dir")
def revoke(identifier: str, **flags: Any) -> None:
    """Take a token back, by its ID in the list. It counts at once."""
    store = _store(settings_from(**flags))
    store.revoke(identifier)
    click.echo("revoked")
    if not store.all():
        note(_CLOSED)


@token.command()
@settings_options("config", "data_dir")
def off(**flags: Any) -> None:
    """Take every token back, and ask for none from now on.

    Whoever is on this machine may use the gateway then. One that other machines
    can reach goes on letting nobody in.
    """
    _store(settings_from(**flags)).clear()
    click.echo(_OPEN)


def _store(settings: Settings) -> TokenStore:
    return TokenStore(settings.data_dir, key_of(sources(settings)))


def _tell_unknown(settings: Settings, grant: Grant) -> None:
    """A name that fits no server is probably a typo."""
    try:
        names = [spec.name for spec in load(settings).servers]
    except ConfigError:
        return
    for pattern in (*grant.servers, *grant.tools):
        alone = Grant(servers=(pattern,), tools=(pattern,) if pattern in grant.tools else ())
        if not any(alone.shows(name) for name in names):
            note(f"{pattern!r} fits no server that is configured now")


def _granted(grant: Grant) -> str:
    return "everything" if grant.is_everything else ", ".join((*grant.servers, *grant.tools))


def _row(kept: Token) -> dict[str, Any]:
    return {
        "id": kept.id,
        "name": kept.name,
        "servers": list(kept.grant.servers),
        "tools": list(kept.grant.tools),
        "created": kept.created,
        "expires": kept.expires,
    }
