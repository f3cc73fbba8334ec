"""Asks the user on a terminal whether to trust a project's configuration, and stores the answer."""

import click

from toolscript.config.trust import ProjectFile, TrustStore
from toolscript.text import printable

_LISTED = 50
"""Servers that are listed; a longer list is for the file itself."""


def show(file: ProjectFile, trust: TrustStore) -> None:
    """What a file would start, and what is new in it since the last decision."""
    before = trust.decision(file.path)
    before = before if before and before.trusted else None
    lines = [line for line in file.lines(before) if line[0] != "gone" or before]
    for state, name, what in lines[:_LISTED]:
        mark = f"{state:<8}" if before else ""
        click.echo(printable(f"{mark}{name}: {what}" if what else f"{mark}{name}"), err=True)
    if len(lines) > _LISTED:
        click.echo(f"and {len(lines) - _LISTED} more; read the file", err=True)


def ask(file: ProjectFile, trust: TrustStore) -> bool:
    """Show a file, have the user say yes or no to it, and remember that."""
    click.echo(
        printable(f"{file.path} asks to start these programs, and to reach these addresses:"),
        err=True,
    )
    show(file, trust)
    trusted = click.confirm("Do you trust it as it is now?", default=False, err=True)
    trust.decide(file, trusted=trusted)
    return trusted
