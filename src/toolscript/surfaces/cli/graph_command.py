"""``toolscript graph``: shows, fills and clears the graph of tools used together."""

from pathlib import Path
from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import output_option, reading, settings_options
from toolscript.surfaces.cli.output import note, print_answer
from toolscript.text.display import counted, encodable, first_lines

_DEFAULT_EDGES = 50
_MAX_UNKNOWN = 5


@click.group()
def graph() -> None:
    """Show and fill the graph of tools that are used together."""


@graph.command()
@output_option
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
    rows = [_row(edge) for edge in answer["edges"]]
    empty = _nothing_shown(answer["stats"] or {})
    print_answer(answer, output, ["From", "To", "Kind", "Weight", "Times"], rows, empty=empty)


@graph.command()
@click.argument("tool")
@output_option
@settings_options("config", "data_dir")
def related(tool: str, output: str, **flags: Any) -> None:
    """Show the tools used before and after TOOL, and those that it needs first."""
    with connected(flags, embed=False) as client:
        answer = client.get("/graph/related", [("tool", tool)])
    kinds = {"before": "before it", "after": "after it", "needs": "needed first"}
    rows = [
        [title, each["tool"], each["evidence"]]
        for kind, title in kinds.items()
        for each in answer[kind]
    ]
    empty = f"nothing is known to go with {tool}"
    print_answer(answer, output, ["", "Tool", "Evidence"], rows, empty=empty)


@graph.command()
@output_option
@settings_options("config", "data_dir")
def stats(output: str, **flags: Any) -> None:
    """Show how large the graph is, its alpha, and its skill in forecasts."""
    with connected(flags, embed=False) as client:
        figures: dict[str, float] = client.get("/graph", [("limit", 1)])["stats"] or {}
    rows = [[name, f"{value:g}"] for name, value in figures.items()]
    print_answer(figures, output, ["What", "How much"], rows)


@graph.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("config", "data_dir")
def import_(file: Path, **flags: Any) -> None:
    """Learn workflows, dependencies and logs of calls from FILE.

    FILE is JSON. See the guide on the graph.
    """
    import msgspec  # noqa: PLC0415 - not for the help

    from toolscript.graph.graph_files import read  # noqa: PLC0415 - not for the help

    with reading(file):
        contents = read(encodable(file.read_text("utf-8")))
    with connected(flags, embed=False) as client:
        learned = client.post("/graph/import", msgspec.json.encode(contents))
        known = {tool["toolId"] for tool in client.get("/tools")["tools"]}
    if unknown := sorted(contents.tools - known):
        note(f"not among your tools: {', '.join(first_lines(unknown, _MAX_UNKNOWN))}")
    click.echo(
        f"learned {counted(learned['calls'], 'call')} and {counted(learned['edges'], 'new edge')}; "
        f"the graph has {counted(learned['total'], 'edge')} now"
    )


@graph.command()
@settings_options("config", "data_dir")
def clear(**flags: Any) -> None:
    """Forget everything that was learned from use."""
    with connected(flags, embed=False) as client:
        gone = client.post("/graph/clear", b"{}")
    click.echo(f"forgot {counted(gone['edges'], 'edge')} and {counted(gone['calls'], 'call')}")


def _nothing_shown(stats: dict[str, Any]) -> str:
    calls = stats.get("calls")
    known = f"{counted(calls, 'call')} learned, none after another of its session" if calls else ""
    return (
        f"{known or 'nothing is learned yet'}: an edge needs two calls that succeed in one\n"
        "session of an MCP client, or under one Toolscript-Session over HTTP; or start with\n"
        "toolscript graph import FILE"
    )


def _row(edge: dict[str, Any]) -> list[str]:
    kinds = ", ".join(edge["kinds"])
    return [edge["source"], edge["target"], kinds, f"{edge['weight']:.1f}", str(edge["times"])]
