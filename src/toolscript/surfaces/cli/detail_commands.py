"""``toolscript describe``, ``toolscript logs`` and ``toolscript restart``."""

from typing import Any

import click

from toolscript.surfaces.cli.connect import connected, gateway
from toolscript.surfaces.cli.gateway_client import target
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import count_held, note, print_json, print_text
from toolscript.text.display import counted, printable
from toolscript.text.wire_constants import REPAIRED
from toolscript.types import SEPARATOR, as_id


@click.command()
@click.argument("tool")
@output_option
@settings_options("profile", "config", "data_dir")
def describe(tool: str, output: str, **flags: Any) -> None:
    """Show what TOOL does and takes: its whole description and schema.

    TOOL is an id, such as git__git_log.
    """
    server, is_id, _ = as_id(tool).partition(SEPARATOR)
    with connected(flags, only=server if is_id else None, embed=False) as client:
        [answer] = client.get("/tools", [("tool", tool)])["tools"]
    if output == "json":
        print_json(answer)
        return
    repaired = f"{REPAIRED} {answer['ownName']}" if "ownName" in answer else ""
    facts = (answer["title"], answer["toolClass"], answer["trust"], answer.get("warning"), repaired)
    click.secho(printable(answer["toolId"]), bold=True)
    click.echo(printable(", ".join(filter(None, facts))))
    print_text(f"\n{answer['description'] or 'It has no description.'}\n\nIt takes:")
    print_json(answer["inputSchema"])
    if answer["outputSchema"]:
        click.echo("\nIt returns:")
        print_json(answer["outputSchema"])


@click.command()
@click.argument("server")
@click.option("--lines", type=int, default=40, show_default=True, help="At most this many lines.")
@output_option
@settings_options("config", "data_dir")
def logs(server: str, lines: int, output: str, **flags: Any) -> None:
    """Show the last lines that SERVER has written on standard error.

    They are of its run now and of the one before. Secrets of its entry are
    blanked; the file has them as the server wrote them.
    """
    with connected(flags, only="", embed=False) as client:
        answer = client.get("/servers/log", [("server", server), ("lines", lines)])
    if output == "json":
        print_json(answer)
        return
    print_text("\n".join(answer["lines"]) or "it has written nothing")
    note(answer["file"])


@click.command()
@click.argument("server")
@settings_options("config", "data_dir")
def restart(server: str, **flags: Any) -> None:
    """Stop SERVER, which the gateway runs, and start it anew."""
    path = target("/servers/restart", [("server", server)])
    [answer] = gateway(flags).post(path, b"{}")["servers"]
    tools = ", ".join(filter(None, [counted(answer["tools"], "tool"), count_held(answer)]))
    click.echo(printable(f"{answer['name']} is {answer['state']} with {tools}"))
