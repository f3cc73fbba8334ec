"""``toolscript trust``: records, lists and revokes trust in project configuration files."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from toolscript.config.locations import FILE_NAME, project_file
from toolscript.config.settings import load_settings
from toolscript.config.trust import Decision, ProjectFile, TrustStore, refusal
from toolscript.errors import ConfigMissingError, ConfigSyntaxError, ConfigUntrustedError
from toolscript.storage.atomic_files import is_file
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import note, print_answer
from toolscript.surfaces.server.config_sources import ask_to_trust, show_servers
from toolscript.text.display import printable


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listed", is_flag=True, help="List the decisions made so far.")
@click.option("--revoke", is_flag=True, help="Revoke the decision.")
@click.option(
    "--yes",
    "-y",
    is_flag=True,
    help="Trust the file without asking, as is needed without a terminal.",
)
@output_option
@settings_options("data_dir")
def trust(
    path: Path | None, listed: bool, revoke: bool, yes: bool, output: str, **flags: Any
) -> int:
    """Let the project's .toolscript.json at PATH start its servers.

    Without PATH it is the one of the working directory. The decision holds for
    the file as it is now: an edited file has to be trusted again. A file named
    with --config, and the one in the home directory, need no trust.
    """
    store = TrustStore(load_settings(flags).paths.data_dir)
    if listed:
        rows = [
            {"path": made.path, "state": _state(made), "decided": made.decided}
            for made in store.all()
        ]
        cells = [list(row.values()) for row in rows]
        header = ["File", "State", "Decided"]
        print_answer({"files": rows}, output, header, cells, empty="nothing was decided so far")
        return 0
    project = _locate(path)
    if revoke:
        click.echo("revoked" if store.forget(project) else "was not trusted")
        return 0
    return _decide(ProjectFile.read(project), store, quiet=yes)


def _decide(file: ProjectFile, store: TrustStore, *, quiet: bool) -> int:
    if file.flaw:
        raise ConfigUntrustedError(refusal(file))
    if not quiet and sys.stdin.isatty() and sys.stderr.isatty():
        trusted = ask_to_trust(file, store)
    else:
        show_servers(file, store)
        if not quiet:
            raise ConfigUntrustedError(
                f"nobody can be asked here, so {file.path} is not trusted; read it, then: "
                f"toolscript trust --yes {shlex.quote(str(file.path))}"
            )
        store.decide(file, trusted=True)
        trusted = True
    click.echo(printable(f"{'trusted' if trusted else 'not trusted'}: {file.path}"))
    if not file.servers():
        note(f"{file.path} names no server")
    return 0 if trusted else 1


def _locate(path: Path | None) -> Path:
    """Returns the path of the file to decide about, whether it exists or not."""
    if path is None:
        found = project_file(Path.cwd(), os.environ)
        if found is None:
            raise ConfigMissingError(f"no project's {FILE_NAME} in {Path.cwd()} or above it")
        return found
    path = path.absolute()
    if path.name == FILE_NAME:
        return path
    if is_file(path):
        raise ConfigMissingError(f"{path} is not called {FILE_NAME}; it is used with --config")
    return path / FILE_NAME


def _state(decision: Decision) -> str:
    try:
        file = ProjectFile.read(Path(decision.path))
    except ConfigSyntaxError:
        return "gone"
    if file.sha256 != decision.sha256:
        return "changed since"
    return "trusted" if decision.trusted else "not trusted"
