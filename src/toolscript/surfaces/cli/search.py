"""``toolscript search``."""

from typing import Any

import click

from toolscript.errors import QueryError
from toolscript.settings import MAX_QUERY_CHARS
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import (
    output_option,
    refresh_option,
    settings_from,
    settings_options,
)
from toolscript.surfaces.cli.output import note, print_json, print_table
from toolscript.text import printable


@click.command()
@click.argument("query")
@settings_options("limit", "threshold")
@click.option(
    "--server",
    "servers",
    multiple=True,
    metavar="NAME",
    help="Only this server's tools; may be repeated.",
)
@output_option
@refresh_option
@settings_options("model", "config", "data_dir")
def search(
    query: str,
    servers: tuple[str, ...],
    output: str,
    refresh: bool,  # noqa: FBT001 - click passes every option by name
    **flags: Any,
) -> None:
    """Find the tools that do what QUERY says.

    QUERY is a sentence such as "commit my changes", or a tool's name, typos
    included.
    """
    settings = settings_from(**flags)
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARS} are searched"
        )
    parameters: list[tuple[str, object]] = [
        ("q", query),
        ("limit", settings.limit),
        ("threshold", settings.threshold),
        *(("server", name) for name in servers),
    ]
    with connected(settings, flags, refresh=refresh) as client:
        answer = client.get("/search", parameters)
        _tell_failures(client.get("/servers")["servers"])
    for reason in answer["degraded"]:
        note(f"degraded: {reason}")
    if output == "json":
        print_json(answer)
    elif answer["results"]:
        _print_hits(answer["results"])
    else:
        _print_nothing(answer)


def _print_hits(results: list[dict[str, Any]]) -> None:
    rows = [[hit["toolId"], f"{hit['confidence']:.2f}", hit["reason"]] for hit in results]
    print_table(["Tool", "Confidence", "Reason"], rows)


def _print_nothing(answer: dict[str, Any]) -> None:
    click.echo("No tools found matching query")
    click.echo(f"Try other words, or a lower --threshold (now {answer['threshold']:g}).")
    below = answer["below"]
    if below:
        click.echo(f"The nearest was {printable(below['toolId'])} with {below['confidence']:.2f}.")


def _tell_failures(servers: list[dict[str, Any]]) -> None:
    failed = [server for server in servers if server["state"] in {"failed", "invalid"}]
    if failed:
        names = ", ".join(server["name"] for server in failed)
        again = "; --refresh tries again" if any(server["snapshot"] for server in failed) else ""
        note(f"not searched: {names} (toolscript list-servers says why){again}")
