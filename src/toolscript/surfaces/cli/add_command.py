"""``toolscript add`` and ``toolscript remove``."""

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from toolscript.config.file_editor import REMOVED, edit
from toolscript.config.settings import load_settings
from toolscript.errors import GatewayMissingError, InputError, UnknownNameError
from toolscript.surfaces.cli.config_changes import ConfigFile, project_option, report
from toolscript.surfaces.cli.connect import gateway
from toolscript.surfaces.cli.options import repeatable, settings_options
from toolscript.text.display import printable

_ADDRESS = re.compile(r"[\w-]+(\.[\w-]+)+(:\d+)?/\S*|[\w.-]+:\d+(/\S*)?")


@click.command()
@click.argument("name")
@click.argument("words", nargs=-1, required=True, metavar="URL | -- COMMAND...")
@repeatable("--env", "env", "NAME=VALUE", "Add this variable to the server's environment.")
@repeatable("--header", "headers", "NAME:VALUE", "Send this HTTP header with every request.")
@click.option("--type", "kind", type=click.Choice(["stdio", "http", "sse"]), help="Its transport.")
@project_option
@settings_options("config", "data_dir")
def add(
    name: str,
    words: tuple[str, ...],
    env: tuple[str, ...],
    headers: tuple[str, ...],
    kind: str | None,
    project: bool,
    **flags: Any,
) -> None:
    """Add the server NAME: a program that COMMAND starts, or one at URL.

    A running gateway connects to it at once, and you see how many tools it has.
    """
    file = ConfigFile(load_settings(flags).paths, project=project)
    keys, known = file.entry(name)
    if known is not None:
        raise InputError(f"{file.path} has a server {name!r}; first: toolscript remove {name}")
    if kind != "stdio" and len(words) == 1 and _is_address(words[0]):
        raise InputError("there is no such program; an address begins with https://")
    entry: dict[str, Any] = {"type": kind} if kind else {}
    entry |= _entry(words, _pairs("--env", env, "="), _pairs("--header", headers, ":"))
    data = edit(file.path, file.data, [(keys, entry)])
    file.check(data, name)
    file.replace(data)
    click.echo(printable(f"added {name} to {file.path}"))
    report(flags, name)


@click.command()
@click.argument("name")
@project_option
@settings_options("config", "data_dir")
def remove(name: str, project: bool, **flags: Any) -> None:
    """Remove the server NAME from your configuration.

    A running gateway stops it at once.
    """
    file = ConfigFile(load_settings(flags).paths, project=project)
    keys, known = file.entry(name)
    if known is None:
        from toolscript.retrieval.lexical.spelling import not_known  # noqa: PLC0415 - seldom used

        advice = not_known("server", name, [*file.places], "see: toolscript list-servers")
        raise UnknownNameError(f"{file.path}: {advice}")
    file.replace(edit(file.path, file.data, [(keys, REMOVED)]))
    with suppress(GatewayMissingError):
        gateway(flags)  # has taken it over when this returns
    click.echo(printable(f"removed {name} from {file.path}"))


def _entry(words: tuple[str, ...], env: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
    """Returns the entry of a URL or a command; raises `InputError` for the other one's option."""
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        if env:
            raise InputError("--env is for a server with a command; for a URL there is --header")
        return {"url": words[0], **({"headers": headers} if headers else {})}
    if headers:
        raise InputError("--header is for a server with a URL; for a command there is --env")
    return {"command": words[0], "args": [*words[1:]], **({"env": env} if env else {})}


def _is_address(word: str) -> bool:
    """Whether a word is a host with a port or a path, and no program."""
    return bool(_ADDRESS.fullmatch(word)) and not Path(word).exists() and not shutil.which(word)


def _pairs(option: str, values: tuple[str, ...], separator: str) -> dict[str, str]:
    """Returns names and values; raises `InputError`, which shows no value."""
    pairs = [value.partition(separator) for value in values]
    for name, found, _ in pairs:
        if not (found and name.strip()):
            raise InputError(f"{option} has no {separator!r}; expected NAME{separator}VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}
