"""``toolscript graph``: what is used together, and what was said to be."""

from pathlib import Path
from typing import Any

import click

from toolscript.errors import InputError
from toolscript.surfaces.cli.client import Client
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import output_option, settings_from, settings_options
from toolscript.surfaces.cli.output import counted, print_json, print_table
from toolscript.text import encodable

_DEFAULT_EDGES = 50


@click.group()
def graph() -> None:
    """Show and fill the graph of tools that are used together."""


@graph.command()
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "dot", "svg"]),
    default="table",
    show_default=True,
    help="A table, JSON, or a picture: for Graphviz, or to open in a browser.",
)
@click.option("--limit", type=int, default=_DEFAULT_EDGES, show_default=True, help="So many edges.")
@settings_options("config", "data_dir")
def show(output: str, limit: int, **flags: Any) -> None:
    """Show the strongest edges, strongest first."""
    with connected(settings_from(**flags), flags, embed=False) as client:
        answer = client.get("/graph", [("limit", limit)])
    if output == "json":
        print_json(answer)
    elif output in {"dot", "svg"}:
        _draw(answer["edges"], output)
    elif answer["edges"]:
        rows = [_row(edge) for edge in answer["edges"]]
        print_table(["From", "To", "Kind", "Weight", "Times"], rows)
    else:
        _say_empty()


@graph.command()
@click.argument("tool")
@output_option
@settings_options("config", "data_dir")
def related(tool: str, output: str, **flags: Any) -> None:
    """Show what is used before and after TOOL, and what it needs first."""
    with connected(settings_from(**flags), flags, embed=False) as client:
        answer = client.get("/graph/related", [("tool", tool)])
    if output == "json":
        print_json(answer)
        return
    kinds = {"before": "before it", "after": "after it", "needs": "needed first"}
    rows = [
        [told, each["tool"], each["evidence"]] for k, told in kinds.items() for each in answer[k]
    ]
    if rows:
        print_table(["", "Tool", "Evidence"], rows)
    else:
        click.echo(f"nothing is known to go with {tool}")


@graph.command()
@output_option
@settings_options("config", "data_dir")
def stats(output: str, **flags: Any) -> None:
    """Show how large the graph is, and how well it foresees the next tool."""
    with connected(settings_from(**flags), flags, embed=False) as client:
        found: dict[str, float] = client.get("/graph", [("limit", 1)])["stats"] or {}
    if output == "json":
        print_json(found)
    else:
        print_table(["What", "How much"], [[name, f"{value:g}"] for name, value in found.items()])


@graph.command()
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("config", "data_dir")
def bootstrap(file: Path, **flags: Any) -> None:
    """Take over ways of working from FILE, YAML or JSON.

    It holds workflows, each with steps, edges or tasks, and may declare
    dependencies: see the guide on the graph.
    """
    _take(file, flags)


@graph.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("config", "data_dir")
def import_(file: Path, **flags: Any) -> None:
    """Learn from FILE: sequences of calls from a log, dependencies, workflows."""
    _take(file, flags)


@graph.command()
@settings_options("config", "data_dir")
def clear(**flags: Any) -> None:
    """Forget everything that was learned from use."""
    with connected(settings_from(**flags), flags, embed=False) as client:
        gone = client.post("/graph/clear", b"{}")
    click.echo(f"forgot {counted(gone['edges'], 'edge')} and {counted(gone['calls'], 'call')}")


def _take(file: Path, flags: dict[str, Any]) -> None:
    try:
        text = encodable(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{file} is not text; expected YAML or JSON") from None
    with connected(settings_from(**flags), flags, embed=False) as client:
        _print_taken(client, text)


def _print_taken(client: Client, text: str) -> None:
    import msgspec  # noqa: PLC0415 - not for the help

    from toolscript.graph.file_formats import read  # noqa: PLC0415 - not for the help

    taken = client.post("/graph/import", msgspec.json.encode(_document(read(text))))
    click.echo(
        f"learned {counted(taken['calls'], 'call')} and {counted(taken['edges'], 'new edge')}; "
        f"the graph has {counted(taken['total'], 'edge')} now"
    )


def _document(known: Any) -> dict[str, Any]:
    """What a file says, as the gateway reads it."""
    return {
        "workflows": [{"name": each.name, "edges": each.pairs} for each in known.templates],
        "dependencies": known.dependencies,
        "sequences": [
            [{"tool": tool, "ok": succeeded} for tool, succeeded in each]
            for each in known.sequences
        ],
    }


def _draw(edges: list[dict[str, Any]], form: str) -> None:
    import msgspec  # noqa: PLC0415 - not for the help

    from toolscript.graph.base import Edge  # noqa: PLC0415 - not for the help
    from toolscript.graph.svg_picture import dot, svg  # noqa: PLC0415 - not for the help

    found = msgspec.convert(edges, list[Edge])
    click.echo(dot(found) if form == "dot" else svg(found), nl=False)


def _row(edge: dict[str, Any]) -> list[str]:
    kinds = ", ".join(edge["kinds"])
    return [edge["source"], edge["target"], kinds, f"{edge['weight']:.1f}", str(edge["times"])]


def _say_empty() -> None:
    click.echo("nothing is learned yet: call tools through the gateway, or start with")
    click.echo("toolscript graph bootstrap FILE")
