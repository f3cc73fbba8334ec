"""``toolscript activity``: shows which tools were called, by whom, and with what outcome."""

import json
import time
from datetime import datetime
from typing import Any, NoReturn

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import note, print_answer
from toolscript.text.display import printable, size_text

_LIMIT = 50
_PAGE = 100
_POLL_S = 1.0
_EMPTY = "no calls are recorded that fit"
_HEADER = ["Time", "Who", "Tool", "Outcome", "ms", "Sent", "Received"]
_WIDTHS = [8, 8, 40, 17, 8, 8, 8]
"""The columns with ``--follow``, which knows only the rows so far; a longer cell shifts others."""


@click.command()
@click.option(
    "--limit", type=int, default=_LIMIT, show_default=True, help="The number of calls to show."
)
@click.option("--tool", metavar="PATTERN", help="Only calls of these tools, such as 'git__*'.")
@click.option("--who", metavar="ID", help="Only calls of this token, 'owner' or 'anyone'.")
@click.option(
    "--outcome", metavar="TEXT", help="Only calls with this outcome, such as 'tool error'."
)
@click.option("--follow", is_flag=True, help="Go on and show each new call until Ctrl-C.")
@output_option
@settings_options("config", "data_dir")
def activity(
    limit: int,
    tool: str | None,
    who: str | None,
    outcome: str | None,
    follow: bool,
    output: str,
    **flags: Any,
) -> None:
    """Show the newest calls of tools: when, who, which tool, and what came of it.

    Neither arguments nor results are recorded, only how long they are. With
    --follow the newest call is the last line, and JSON has a line per call.
    """
    filters = [("tool", tool), ("who", who), ("outcome", outcome)]
    # Nothing is asked of the servers, so that none is connected to.
    with connected(flags, embed=False, only="") as client:
        answer = client.get("/activity", [("limit", limit), *filters])
        if follow:
            _follow(client, answer["calls"], filters, output)
    rows = [_row(call) for call in answer["calls"]]
    print_answer(answer, output, _HEADER, rows, empty=_EMPTY, flexible=2)


def _follow(
    client: Client, newest: list[dict[str, Any]], filters: list[tuple[str, str | None]], output: str
) -> NoReturn:
    """Prints these calls, the newest last, and then each new one."""
    if output == "table":
        click.secho(_line(_HEADER), bold=True)
    if not newest:
        note(f"{_EMPTY} yet")
    latest = 0
    while True:
        for call in reversed(newest):
            click.echo(json.dumps(call) if output == "json" else _line(_row(call)))
            latest = call["id"]
        time.sleep(_POLL_S)
        newest = _newer(client, latest, filters)


def _newer(
    client: Client, latest: int, filters: list[tuple[str, str | None]]
) -> list[dict[str, Any]]:
    """Returns the calls after the one with this id, the newest first."""
    newer: list[dict[str, Any]] = []
    before: int | None = None
    while True:
        answer = client.get("/activity", [("limit", _PAGE), ("before", before), *filters])
        calls, before = answer["calls"], answer["next"]
        if calls and not newer and calls[0]["id"] < latest:
            latest = 0  # a damaged file was replaced by a new one
        newer += [call for call in calls if call["id"] > latest]
        if before is None or before <= latest:
            return newer


def _row(call: dict[str, Any]) -> list[str]:
    sizes = [size_text(call["argumentBytes"]), size_text(call["resultBytes"])]
    return [
        _time(call["time"]),
        *(call[name] for name in ("who", "tool", "outcome")),
        f"{call['ms']:.1f}",
        *sizes,
    ]


def _line(cells: list[str]) -> str:
    widths = zip(cells, _WIDTHS, strict=True)
    return "  ".join(printable(cell).ljust(width) for cell, width in widths).rstrip()


def _time(text: str) -> str:
    """Returns the local time, with the date of another day."""
    when = datetime.fromisoformat(text).astimezone()
    today = when.date() == datetime.now().astimezone().date()
    return when.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S")
