"""``toolscript secret set|list|rm``."""

import sys
from typing import Any

import click

from toolscript.config.secret_store import SecretStore, check_secret_name
from toolscript.config.settings import load_settings
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_answer


@click.group()
def secret() -> None:
    """Store the secrets that server entries name.

    An entry names one as ${secret:NAME}, in env, headers, args or url.
    """


@secret.command("set")
@click.argument("name")
@click.option(
    "--keyring/--file",
    "in_keyring",
    default=None,
    help="Keep values in the system's keyring, or in a file that only you can read. "
    "This is remembered.  [default: --file]",
)
@settings_options("data_dir")
def set_(name: str, in_keyring: bool | None, **flags: Any) -> None:
    """Store the secret NAME, from the terminal or from standard input.

    A running gateway restarts the servers that name it.
    """
    check_secret_name(name)
    store = _store(flags)
    if sys.stdin.isatty():
        value = click.prompt(f"Value of {name}", hide_input=True, err=True)
    else:
        value = sys.stdin.read().removesuffix("\n").removesuffix("\r")
    store.set(name, value, in_keyring=in_keyring)
    click.echo(f"set: {name}")


@secret.command("list")
@output_option
@settings_options("data_dir")
def list_(output: str, **flags: Any) -> None:
    """List the names of the secrets, and the place of each value."""
    store = _store(flags)
    places = {name: "keyring" if store.is_in_keyring(name) else "file" for name in store.names()}
    answer = {"secrets": [{"name": name, "place": place} for name, place in places.items()]}
    rows = [[name, place] for name, place in places.items()]
    print_answer(answer, output, ["Name", "Place"], rows, empty="no secrets are stored")


@secret.command("rm")
@click.argument("name")
@settings_options("data_dir")
def remove(name: str, **flags: Any) -> None:
    """Delete the secret NAME. Servers that name it fail from their next start on."""
    _store(flags).remove(name)
    click.echo(f"removed: {name}")


def _store(flags: dict[str, Any]) -> SecretStore:
    return SecretStore(load_settings(flags).paths.data_dir)
