"""``toolscript get-types``, and what ``toolscript search --output types`` prints."""

from typing import Any

import click

from toolscript.surfaces.cli.client import Client
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import refresh_option, settings_from, settings_options
from toolscript.text import printable

filter_option = click.option(
    "--filter",
    "names",
    multiple=True,
    metavar="NAMES",
    help="Only these servers' and tools', by name and id, with commas between; may be repeated.",
)


@click.command("get-types")
@filter_option
@click.option(
    "--lang",
    type=click.Choice(["ts", "py"]),
    default="ts",
    show_default=True,
    help="TypeScript or Python.",
)
@click.option("--compact", is_flag=True, help="In fewer words, for who pays by the word.")
@refresh_option
@settings_options("config", "data_dir")
def get_types(
    names: tuple[str, ...],
    lang: str,
    compact: bool,  # noqa: FBT001 - click passes every option by name
    refresh: bool,  # noqa: FBT001 - click passes every option by name
    **flags: Any,
) -> None:
    """Print a typed client of the tools: a module to import and call them by."""
    parameters = [*(("filter", name) for name in names), ("compact", int(compact)), ("json", 1)]
    with connected(settings_from(**flags), flags, refresh=refresh) as client:
        made = client.get(f"/runtime/tools.{lang}", parameters)
    click.echo(made["module"], nl=False)


def print_types(client: Client, results: list[dict[str, Any]]) -> None:
    """The hits as Markdown: a table, the module of their tools, and how to call the first."""
    chosen = ",".join(hit["toolId"] for hit in results)
    made = client.get("/runtime/tools.ts", [("filter", chosen), ("json", 1)])
    click.echo("## Search Results\n")
    click.echo("| Tool | Confidence | Reason |\n|------|-----------|--------|")
    for hit in results:
        cells = [hit["toolId"], f"{hit['confidence']:.2f}", hit["reason"]]
        click.echo(f"| {' | '.join(table_cell(cell) for cell in cells)} |")
    click.echo(f"\n```typescript\n{made['module'].rstrip()}\n```\n")
    click.echo('Usage example:\n```typescript\nimport { tools } from "toolscript";\n')
    click.echo("// Call tools using the generated client")
    click.echo(f"const result = {made['usage']};\n```")


_MARKUP = str.maketrans({each: f"\\{each}" for each in "\\`*[]<>|&~"})


def table_cell(text: str) -> str:
    """The text as Markdown shows it, whatever it says: no cell, no link and no HTML of its own."""
    return printable(text).translate(_MARKUP).replace("://", "\\://").replace("www.", "www\\.")
