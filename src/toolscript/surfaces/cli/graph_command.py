"""``toolscript graph``: shows, fills and clears the graph of tools used together."""

from pathlib import Path
from typing import Any

import click

from toolscript.errors import InputError
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import output_option, settings_options
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
    type=click.Choice(["table", "json", "dot"]),
    default="table",
    show_default=True,
    help="A table, JSON, or DOT, of which Graphviz makes a picture.",
)
@click.option(
    "--limit",
    type=int,
    default=_DEFAULT_EDGES,
    show_default=True,
    help="The number of edges to show.",
)
@settings_options("config", "data_dir")
def show(output: str, limit: int, **flags: Any) -> None:
    """Show the strongest edges, strongest first."""
    with connected(flags, embed=False) as client:
        answer = client.get("/graph", [("limit", limit)])
    if output == "json":
        print_json(answer)
    elif output == "dot":
        _print_dot(answer["edges"])
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
    with connected(flags, embed=False) as client:
        answer = client.get("/graph/related", [("tool", tool)])
    if output == "json":
        print_json(answer)
        return
    kinds = {"before": "before it", "after": "after it", "needs": "needed first"}
    rows = [
        [title, tool["tool"], tool["evidence"]]
        for kind, title in kinds.items()
        for tool in answer[kind]
    ]
    if rows:
        print_table(["", "Tool", "Evidence"], rows)
    else:
        click.echo(f"nothing is known to go with {tool}")


@graph.command()
@output_option
@settings_options("config", "data_dir")
def stats(output: str, **flags: Any) -> None:
    """Show how large the graph is, and how well it forecasts the next tool."""
    with connected(flags, embed=False) as client:
        figures: dict[str, float] = client.get("/graph", [("limit", 1)])["stats"] or {}
    if output == "json":
        print_json(figures)
    else:
        print_table(["What", "How much"], [[name, f"{value:g}"] for name, value in figures.items()])


@graph.command()
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("config", "data_dir")
def bootstrap(file: Path, **flags: Any) -> None:
    """Import known workflows from FILE, YAML or JSON.

    It holds workflows, each with steps, edges or tasks, and may declare
    dependencies: see the guide on the graph.
    """
    _import_file(file, flags)


@graph.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("config", "data_dir")
def import_(file: Path, **flags: Any) -> None:
    """Learn from FILE: sequences of calls from a log, dependencies, workflows."""
    _import_file(file, flags)


@graph.command()
@settings_options("config", "data_dir")
def clear(**flags: Any) -> None:
    """Forget everything that was learned from use."""
    with connected(flags, embed=False) as client:
        gone = client.post("/graph/clear", b"{}")
    click.echo(f"forgot {counted(gone['edges'], 'edge')} and {counted(gone['calls'], 'call')}")


def _import_file(file: Path, flags: dict[str, Any]) -> None:
    try:
        text = encodable(file.read_text("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{file} is not text; expected YAML or JSON") from None
    with connected(flags, embed=False) as client:
        learned = client.post("/graph/import", _request_body(text))
    click.echo(
        f"learned {counted(learned['calls'], 'call')} and {counted(learned['edges'], 'new edge')}; "
        f"the graph has {counted(learned['total'], 'edge')} now"
    )


def _request_body(text: str) -> bytes:
    """Returns a file's contents as JSON, without the arguments and results that a log may have."""
    import msgspec  # noqa: PLC0415 - not for the help

    from toolscript.graph.graph_files import read  # noqa: PLC0415 - not for the help

    contents = read(text)
    sequences = [
        [{"tool": tool, "ok": succeeded} for tool, succeeded in sequence]
        for sequence in contents.sequences
    ]
    return msgspec.json.encode(
        {
            "workflows": [{"edges": template.pairs} for template in contents.templates],
            "dependencies": contents.dependencies,
            "sequences": sequences,
        }
    )


def _print_dot(edges: list[dict[str, Any]]) -> None:
    import msgspec  # noqa: PLC0415 - not for the help

    from toolscript.graph.base import Edge  # noqa: PLC0415 - not for the help
    from toolscript.graph.dot_format import to_dot  # noqa: PLC0415 - not for the help

    click.echo(to_dot(msgspec.convert(edges, list[Edge])), nl=False)


def _row(edge: dict[str, Any]) -> list[str]:
    kinds = ", ".join(edge["kinds"])
    return [edge["source"], edge["target"], kinds, f"{edge['weight']:.1f}", str(edge["times"])]


def _say_empty() -> None:
    click.echo("nothing is learned yet: call tools through the gateway, or start with")
    click.echo("toolscript graph bootstrap FILE")
