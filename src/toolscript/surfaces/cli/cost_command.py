"""``toolscript cost``: shows what tools cost a model in tokens."""

from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_json, print_table


@click.command()
@output_option
@settings_options("model", "config", "data_dir")
def cost(output: str, **flags: Any) -> None:
    """Show what tools cost a model in tokens: listed, by search, and by their results.

    The figures are estimates: four bytes of JSON are a token.
    """
    with connected(flags) as client:
        answer = client.get("/cost")
    if output == "json":
        print_json(answer)
        return
    rows = [
        [f"listing all {answer['tools']} tools", f"{answer['listAll']:,}"],
        ["listing the search instead", f"{answer['listSearch']:,}"],
        ["each search", f"{answer['search']:,}"],
    ]
    if answer["breakEven"] is not None:
        rows.append(["searches that cost as much", f"{answer['breakEven']:,}"])
    print_table(["What", "Tokens"], rows)
    results = answer["results"]
    if results:
        click.echo()
        header = ["Results of", "Calls", "Tokens", "Largest"]
        numbers = ("calls", "tokens", "largest")
        print_table(header, [[r["tool"], *(f"{r[n]:,}" for n in numbers)] for r in results], 0)
