"""Tables: columns of plain text, with colour on a terminal only."""

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from toolscript.text import printable

_GAP = 2
_WIDE = 200


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], flexible: int = -1) -> None:
    """Rows in aligned columns; on a terminal the ``flexible`` column is cut to fit its width."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    widths[flexible] = min(widths[flexible], _room(widths, flexible))
    click.secho(_line(header, widths), bold=True)
    for row in cells:
        click.echo(_line(row, widths))


def print_nothing(nouns: str, answer: dict[str, Any], nearest: str | None) -> None:
    """That a search found nothing, and the best of what the threshold kept out."""
    click.echo(f"No {nouns} found matching query")
    click.echo(f"Try other words, or a lower --threshold (now {answer['threshold']:g}).")
    if nearest:
        confidence = answer["below"]["confidence"]
        click.echo(f"The nearest was {printable(nearest)} with {confidence:.2f}.")


def print_json(value: Any) -> None:
    """One JSON value, indented. What could steer a terminal is escaped, as JSON allows."""
    unicode = (sys.stdout.encoding or "").casefold().startswith("utf")
    dumped = json.dumps(value, indent=2, ensure_ascii=not unicode)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in dumped))


def print_text(text: str) -> None:
    """Third-party text: as it is into a file or pipe, harmless on a terminal."""
    if sys.stdout.isatty():
        text = "".join(
            c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
        )
    click.echo(text)


def counted(number: int, noun: str) -> str:
    """``1 tool``, ``2 tools``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def note(text: str) -> None:
    """Something worth knowing that is not the answer: on standard error, one line."""
    click.echo(f"toolscript: {printable(text)}", err=True)


def _room(widths: list[int], flexible: int) -> int:
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    others = sum(widths) - widths[flexible] + _GAP * (len(widths) - 1)
    return max(20, columns - others)


def _line(cells: Sequence[str], widths: list[int]) -> str:
    fitted = [
        printable(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)
    ]
    return (" " * _GAP).join(fitted).rstrip()
