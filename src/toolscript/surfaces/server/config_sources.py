"""Finds and loads the configuration of a call; on a terminal asks whether to trust its files.

Every command finds it; modules that read it and judge a project's file are imported when needed.
"""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolscript.config.locations import home_file, key_of, locate, project_file, watched
from toolscript.config.settings import PathSettings
from toolscript.errors import ConfigMissingError, ConfigSyntaxError, ConfigUntrustedError
from toolscript.storage.atomic_files import stamp
from toolscript.surfaces.server.gateway_file import GatewayFile
from toolscript.text.display import printable

if TYPE_CHECKING:
    from toolscript.config.servers import Config
    from toolscript.config.trust import ProjectFile, TrustStore

_LISTED = 50
"""How many servers of a file are listed."""


def config_files(paths: PathSettings) -> tuple[Path, ...]:
    """Returns the configuration's files; see `config.locate`.

    A project's file is among them if it is trusted, or if its gateway runs: after an edit that goes
    on with the trusted content. Raises `ConfigUntrustedError` if there is
    no other file.
    """
    files = locate(paths.config, _here(paths.config), os.environ)
    if paths.config is not None or files[0] == home_file(os.environ):
        return files
    from toolscript.config.trust import TrustStore  # noqa: PLC0415 - only a project's file needs it

    trust = TrustStore(paths.data_dir)
    _ask(files[0], trust)
    try:
        trust.read(files[0])
    except ConfigUntrustedError as error:
        if GatewayFile(paths.data_dir, key_of(files)).is_locked():
            return files
        if len(files) == 1:
            raise
        _warn(str(error))
        return files[1:]
    return files


def config_stamp(paths: PathSettings) -> str:
    """Returns the `Config.stamp` of the files as they are now."""
    return stamp(watched(config_files(paths), paths.data_dir))


def load(paths: PathSettings) -> "Config":
    """Loads the configuration; asks on a terminal about a project's file first."""
    from toolscript.config.servers import load_config  # noqa: PLC0415 - see above
    from toolscript.config.trust import TrustStore  # noqa: PLC0415 - the same

    trust, here = TrustStore(paths.data_dir), _here(paths.config)
    project = None if paths.config else project_file(here, os.environ)
    if project is not None:
        _ask(project, trust)
    config = load_config(paths.config, here, os.environ, trust)
    for line in filter(None, (config.refused, *config.key_problems)):
        _warn(line)
    return config


def _ask(project: Path, trust: "TrustStore") -> None:
    """Ask the user about a file, once for each content, if there is a terminal."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    from toolscript.config.trust import ProjectFile  # noqa: PLC0415 - only a terminal is asked

    file = ProjectFile.read(project)
    if trust.is_open(file):
        with suppress(ConfigSyntaxError):  # what cannot be shown is not asked about, nor used
            ask_to_trust(file, trust)


def show_servers(file: "ProjectFile", trust: "TrustStore") -> None:
    """Print the servers that a file would start, and which are new since the last decision."""
    before = trust.decision(file.path)
    before = before if before and before.trusted else None
    lines = [line for line in file.lines(before) if line[0] != "gone" or before]
    for state, name, what in lines[:_LISTED]:
        mark = f"{state:<8}" if before else ""
        click.echo(printable(f"{mark}{name}: {what}" if what else f"{mark}{name}"), err=True)
    if len(lines) > _LISTED:
        click.echo(f"and {len(lines) - _LISTED} more; read the file", err=True)


def ask_to_trust(file: "ProjectFile", trust: "TrustStore") -> bool:
    """Show a file, ask whether to trust it, store the answer and return it."""
    click.echo(
        printable(f"{file.path} asks to start these programs, and to reach these addresses:"),
        err=True,
    )
    show_servers(file, trust)
    trusted = click.confirm("Do you trust it as it is now?", default=False, err=True)
    trust.decide(file, trusted=trusted)
    return trusted


@cache
def _warn(message: str) -> None:
    """Log a warning once: a command looks at its configuration more than once."""
    import logging  # noqa: PLC0415 - takes longer than the rest of what most commands do

    from toolscript.surfaces.server.logs import ensure_set_up  # noqa: PLC0415 - the same

    ensure_set_up()
    logging.getLogger(__name__).warning("%s", message)


def _here(config: Path | None) -> Path:
    """Returns the working directory; a deleted one matters only if files are looked up in it."""
    try:
        return Path.cwd()
    except OSError:
        if config is not None and config.is_absolute():
            return config.parent
        raise ConfigMissingError(
            "the working directory does not exist any more; change to another, "
            "or name a file with --config and its whole path"
        ) from None
