"""``toolscript get-types``, and the output of ``toolscript search --output types``."""

from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import refresh_option, repeatable, settings_options
from toolscript.text.display import printable

_ENDINGS = {"ts": "ts", "py": "py", "typescript": "ts", "python": "py"}
"""The ending of a module's name by the language."""


@click.command("get-types")
@repeatable(
    "--filter",
    "names",
    "NAMES",
    "Include only these servers and tools, by name and id, separated by commas.",
)
@click.option(
    "--lang",
    type=click.Choice([*_ENDINGS]),
    default="ts",
    show_default=True,
    help="TypeScript or Python.",
)
@refresh_option
@settings_options("profile", "config", "data_dir")
def get_types(names: tuple[str, ...], lang: str, refresh: bool, **flags: Any) -> None:
    """Print a typed client of the tools: a module that calls them."""
    parameters = [*(("filter", name) for name in names), ("json", 1)]
    with connected(flags, refresh=refresh) as client:
        answer = client.get(f"/runtime/tools.{_ENDINGS[lang]}", parameters)
    click.echo(answer["module"], nl=False)


def print_types(client: Client, results: list[dict[str, Any]]) -> None:
    """Print hits as Markdown: a table, a module of their tools, and a call of the first."""
    chosen = ",".join(hit["toolId"] for hit in results)
    answer = client.get("/runtime/tools.ts", [("filter", chosen), ("json", 1)])
    click.echo("## Search Results\n")
    click.echo("| Tool | Confidence | Reason |\n|------|-----------|--------|")
    for hit in results:
        cells = [hit["toolId"], f"{hit['confidence']:.2f}", hit["reason"]]
        click.echo(f"| {' | '.join(table_cell(cell) for cell in cells)} |")
    click.echo(f"\n```typescript\n{answer['module'].rstrip()}\n```\n")
    click.echo('Usage example:\n```typescript\nimport { tools } from "toolscript";\n')
    click.echo("// Call tools using the generated client")
    click.echo(f"const result = {answer['usage']};\n```")


_MARKUP = str.maketrans({mark: f"\\{mark}" for mark in "\\`*[]<>|&~"})


def table_cell(text: str) -> str:
    """Returns the text escaped for Markdown: it adds no cell, no link and no HTML."""
    return printable(text).translate(_MARKUP).replace("://", "\\://").replace("www.", "www\\.")
