"""``toolscript token create|list|revoke|off``."""

from contextlib import AbstractContextManager
from typing import Any

import click

from toolscript.config.access_tokens import Token, TokenStore, grant_for, granted_text
from toolscript.config.locations import key_of
from toolscript.config.permission_rules import check_profile
from toolscript.config.settings import PathSettings, Settings, load_settings
from toolscript.errors import ConfigError
from toolscript.gateway.catalogue import Catalogue
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.surfaces.cli.options import output_option, repeatable, settings_options
from toolscript.surfaces.cli.output import note, print_answer, print_json
from toolscript.surfaces.server.config_sources import config_files, load
from toolscript.surfaces.server.gateway_file import CLOSED
from toolscript.surfaces.server.opened_stores import opened_tokens
from toolscript.types import SKILLS, Grant

_NONE_LEFT = (
    "no token is left: the gateway answers only your own commands; make a token with: "
    "toolscript token create, or forget that there was one with: toolscript token off"
)


@click.group()
def token() -> None:
    """Control who may use which tools of the gateway.

    Without a token, a gateway answers only your own commands, unless you started it
    with --open and there never was one, or since 'toolscript token off'.
    """


@token.command()
@repeatable(
    "--server",
    "servers",
    "NAME",
    "Grant this server's tools; a pattern such as git* grants several.",
)
@repeatable(
    "--tool", "tools", "ID", "Grant this tool; a pattern such as git__read_* grants several."
)
@repeatable(
    "--permission",
    "permissions",
    "RULE",
    "Add a rule such as destructive=deny or git__*=ask: allow, ask or deny.",
)
@repeatable("--profile", "profiles", "NAME", "Let this profile's rules hold, too.")
@click.option("--name", default="", help="The owner's name, shown in the list.")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True, max=36500),
    metavar="NUMBER",
    help="Days until the token expires.  [default: never]",
)
@output_option
@settings_options("config", "data_dir")
def create(
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    permissions: tuple[str, ...],
    profiles: tuple[str, ...],
    name: str,
    days: float | None,
    output: str,
    **flags: Any,
) -> None:
    """Create a token and print it. It is shown only once: just its hash is stored.

    Grants add up. Without --server and --tool the token grants everything.
    """
    settings = load_settings(flags)
    grant = grant_for(servers, tools, permissions, profiles)
    known = [*load(settings.paths).profiles] if profiles else []
    for profile in profiles:
        check_profile(profile, known)
    with _store(settings) as store:
        created, secret = store.create(grant, name, days)
    _note_unknown_names(settings.paths, grant)
    if output == "json":
        print_json({"token": secret, **_row(created)})
        return
    click.echo(secret)
    note(f"grants {granted_text(grant)}; take it back with: toolscript token revoke {created.id}")


@token.command("list")
@output_option
@settings_options("config", "data_dir")
def list_(output: str, **flags: Any) -> None:
    """List the tokens and what each grants."""
    with _store(load_settings(flags)) as store:
        tokens, is_protected = store.all(), store.protected
    rows = [[t.id, t.name, granted_text(t.grant), t.created, t.expires or "never"] for t in tokens]
    print_answer(
        {"tokens": [_row(token) for token in tokens]},
        output,
        ["Id", "Name", "Grants", "Made", "Expires"],
        rows,
        empty=_NONE_LEFT if is_protected else CLOSED,
        flexible=2,
    )


@token.command()
@click.argument("identifier", metavar="ID")
@settings_options("config", "data_dir")
def revoke(identifier: str, **flags: Any) -> None:
    """Revoke the token that the list shows as ID. This takes effect at once."""
    with _store(load_settings(flags)) as store:
        store.revoke(identifier)
        is_last = not store.all()
    click.echo("revoked")
    if is_last:
        note(_NONE_LEFT)


@token.command()
@settings_options("config", "data_dir")
def off(**flags: Any) -> None:
    """Revoke every token.

    Every user of this machine may then use a gateway that was started with --open.
    Any other admits only your own commands.
    """
    with _store(load_settings(flags)) as store:
        store.clear()
    click.echo(CLOSED)


def _store(settings: Settings) -> AbstractContextManager[TokenStore]:
    return opened_tokens(settings, key_of(config_files(settings.paths)))


def _note_unknown_names(paths: PathSettings, grant: Grant) -> None:
    """Print which names match no configured server or known tool: probably typing errors."""
    try:
        config = load(paths)
    except ConfigError:
        return
    specs = {spec.name: spec for spec in config.servers}
    stored = SnapshotStore(paths.data_dir / "cache" / "catalogue", config.key)
    known = stored.load(config.servers).keeping(specs)
    ids = {*known.tools, *known.held}
    for pattern in (*grant.servers, *grant.tools):
        alone = Grant(servers=(pattern,), tools=(pattern,) if pattern in grant.tools else ())
        shown = [name for name in (*specs, SKILLS) if alone.shows(name)]
        if not shown:
            note(f"{pattern!r} fits no server that is configured now")
        elif all(_is_ready(known, name) for name in shown) and not any(map(alone.allows, ids)):
            note(f"{pattern!r} fits no tool that is known now")


def _is_ready(known: Catalogue, server: str) -> bool:
    return server in known.servers and known.servers[server].state == "ready"


def _row(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "servers": list(token.grant.servers),
        "tools": list(token.grant.tools),
        "permissions": [
            {"tools": r.tool_class or r.pattern, "decision": r.decision}
            for r in token.grant.permissions
        ],
        "profiles": list(token.grant.profiles),
        "created": token.created,
        "expires": token.expires,
    }
