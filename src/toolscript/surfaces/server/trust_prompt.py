"""Asks the user on a terminal whether to trust a project's configuration, and stores the answer."""

import click

from toolscript.config.trust import ProjectFile, TrustStore
from toolscript.text import printable

_LISTED = 50
"""How many servers are listed."""


def show(file: ProjectFile, trust: TrustStore) -> None:
    """Print what a file would start, and what is new in it since the last decision."""
    before = trust.decision(file.path)
    before = before if before and before.trusted else None
    lines = [line for line in file.lines(before) if line[0] != "gone" or before]
    for state, name, what in lines[:_LISTED]:
        mark = f"{state:<8}" if before else ""
        click.echo(printable(f"{mark}{name}: {what}" if what else f"{mark}{name}"), err=True)
    if len(lines) > _LISTED:
        click.echo(f"and {len(lines) - _LISTED} more; read the file", err=True)


def ask(file: ProjectFile, trust: TrustStore) -> bool:
    """Show a file, ask whether to trust it, store the answer and return it."""
    click.echo(
        printable(f"{file.path} asks to start these programs, and to reach these addresses:"),
        err=True,
    )
    show(file, trust)
    trusted = click.confirm("Do you trust it as it is now?", default=False, err=True)
    trust.decide(file, trusted=trusted)
    return trusted
