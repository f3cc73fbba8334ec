"""Prints a command's answer: aligned tables, JSON, and notes on standard error."""

import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import click

from toolscript.text.display import counted, harmless, printable

_GAP = 2
_UNLIMITED_COLUMNS = 200
_MIN_COLUMNS = 20
_PROSE_COLUMNS = 80
"""No column of prose is padded further; cells may be longer."""
_LABEL = 12
_MAX_MISSING = 5


def class_label(tool: dict[str, Any]) -> str:
    """Returns the class of a tool or a call, and who says so unless its server does."""
    source = {"guess": ", by its name", "config": ", as configured"}.get(tool["classSource"], "")
    return f"{tool['toolClass']}{source}"


def print_answer(  # noqa: PLR0913 - the answer in its forms
    answer: Any,
    output: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str = "",
    flexible: int = -1,
    prose: Sequence[int] = (),
) -> None:
    """Print the answer as JSON, or else its rows as a table; ``empty`` stands for no rows."""
    if output == "json":
        print_json(answer)
    elif rows or not empty:
        print_table(header, rows, flexible, prose=prose)
    else:
        click.echo(empty)


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    flexible: int = -1,
    *,
    prose: Sequence[int] = (),
) -> None:
    """Print rows in aligned columns; column ``flexible`` is cut to fit the terminal's width.

    If there are columns of ``prose`` none is cut: a terminal that is too narrow gets their cells
    wrapped, below each other.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    is_terminal = sys.stdout.isatty()
    terminal = _terminal_columns() if is_terminal else _UNLIMITED_COLUMNS
    others = sum(widths) - widths[flexible] + _GAP * (len(widths) - 1)
    if prose and is_terminal and others + widths[flexible] > terminal:
        _print_wrapped(header, cells, prose, terminal)
        return
    if prose:
        widths = [min(width, _PROSE_COLUMNS) for width in widths]
    else:
        widths[flexible] = min(widths[flexible], max(_MIN_COLUMNS, terminal - others))
        for row in cells:
            row[flexible] = printable(row[flexible], widths[flexible])
    click.secho(_line(header, widths), bold=True)
    for row in cells:
        click.echo(_line(row, widths))


def _print_wrapped(
    header: Sequence[str], rows: Sequence[Sequence[str]], prose: Sequence[int], terminal: int
) -> None:
    """Prints a table whose columns of prose stand below each other, beside the others."""
    import textwrap  # noqa: PLC0415 - not in a pipe

    others = [column for column in range(len(header)) if column not in prose]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in others]
    indent = sum(widths) + _GAP * len(widths)
    is_beside = terminal - indent >= _MIN_COLUMNS
    indent = indent if is_beside else 2 * _GAP
    wrap = textwrap.TextWrapper(terminal - indent, break_long_words=False, break_on_hyphens=False)
    for bold, row in [(True, header), *((None, row) for row in rows)]:
        first = _line([row[column] for column in others], widths)
        lines = [line for column in prose for line in wrap.wrap(row[column])]
        if is_beside and lines:
            first = first.ljust(indent) + lines.pop(0)
        click.secho("\n".join([first, *(" " * indent + line for line in lines)]), bold=bold)


def _terminal_columns() -> int:
    import shutil  # noqa: PLC0415 - not in a pipe

    return shutil.get_terminal_size().columns


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return (" " * _GAP).join(padded).rstrip()


def print_no_hits(nouns: str, answer: dict[str, Any], nearest: str | None) -> None:
    """Print that a search has no hits, and the best one that the threshold excluded."""
    threshold = f"{answer['threshold']:g}"
    click.echo(f"No {nouns} found matching query")
    click.echo(f"Try other words, in English, or a lower --threshold (now {threshold}).")
    if nearest:
        confidence = answer["below"]["confidence"]
        click.echo(f"The nearest was {printable(nearest)} with {confidence:.2f}.")


def print_json(value: Any) -> None:
    """Print one JSON value, indented. Escapes all that could steer a terminal, as JSON allows."""
    unicode = (sys.stdout.encoding or "").casefold().startswith("utf")
    dumped = json.dumps(value, indent=2, ensure_ascii=not unicode)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in dumped))


def print_text(text: str) -> None:
    """Print text from others about tools and servers. It is harmless, in a pipe as well."""
    click.echo(harmless(text))


def print_result(text: str) -> None:
    """Print a result: as it is, with its colours, into a file or pipe; harmless on a terminal."""
    click.echo(harmless(text) if sys.stdout.isatty() else text, color=True)


def note(text: str) -> None:
    """Print one line on standard error: something worth knowing beside the answer."""
    click.echo(f"toolscript: {printable(text)}", err=True)


def note_degraded(answer: dict[str, Any]) -> None:
    """Print why a search did without one of its signals."""
    for reason in answer["degraded"]:
        note(f"degraded: {reason}")


def note_missing(verb: str, servers: Sequence[dict[str, Any]]) -> None:
    """Print why the first of these servers were not searched, or not listed."""
    for server in servers[:_MAX_MISSING]:
        again = "; --refresh tries again" if server["snapshot"] else ""
        note(f"not {verb}: {server['server']}: {server['why']}{again}")
    more = len(servers) - _MAX_MISSING
    if more > 0:
        note(f"{more} more servers were not {verb}; toolscript list-servers names them")


def count_held(server: dict[str, Any]) -> str:
    """Returns how many tools of a server are held, and the command that shows why; or ""."""
    held, command = server["held"], shlex.join(["toolscript", "review", server["name"]])
    return f"{counted(held, 'tool')} held: {command}" if held else ""


def print_explanation(hit: dict[str, Any]) -> None:
    """Prints a hit's signals with weight and evidence, their mean, and the later steps."""
    click.echo()
    name = hit.get("toolId") or hit["skillId"]
    click.secho(f"{printable(name)}  {hit['confidence']:.2f}", bold=True)
    explanation = hit["explanation"]
    for share in explanation["shares"]:
        evidence = "; ".join(share["evidence"]) or "nothing in common"
        _print_step(share["signal"], f"{share['score']:.2f} × {share['weight']:.2f}", evidence)
    _print_step("mean", f"{explanation['fused']:.2f}", "")
    for step in explanation["steps"]:
        _print_step(step["name"], f"{step['score']:.2f}", step["evidence"])


def print_miss(why: dict[str, Any]) -> None:
    """Prints the verdict on the tool of ``--why``, and its explanation if it was searched."""
    click.echo()
    click.echo(f"{printable(why['toolId'])}: {printable(why['verdict'])}")
    if why["hit"]:
        print_explanation(why["hit"])


def _print_step(label: str, number: str, evidence: str) -> None:
    click.echo(f"  {label:<{_LABEL}}{number:<13}{printable(evidence)}".rstrip())
