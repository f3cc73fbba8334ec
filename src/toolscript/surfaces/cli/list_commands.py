"""``toolscript list-servers`` and ``toolscript list-tools``."""

from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import (
    output_option,
    refresh_option,
    settings_from,
    settings_options,
)
from toolscript.surfaces.cli.output import note, print_json, print_table


@click.command("list-servers")
@output_option
@refresh_option
@settings_options("config", "data_dir")
def list_servers(output: str, refresh: bool, **flags: Any) -> None:  # noqa: FBT001 - click passes every option by name
    """Show the configured servers: state, number of tools, what is wrong."""
    with connected(settings_from(**flags), flags, refresh=refresh, embed=False) as client:
        answer = client.get("/servers")
        snapshot = client.snapshot
    if output == "json":
        print_json(answer)
        return
    rows = [_row(server) for server in answer["servers"]]
    print_table(["Server", "State", "Tools", "Transport", "What is wrong"], rows)
    if snapshot:
        note("as of the last connection; --refresh connects again")


@click.command("list-tools")
@click.argument("server", required=False)
@output_option
@refresh_option
@settings_options("config", "data_dir")
def list_tools(server: str | None, output: str, refresh: bool, **flags: Any) -> None:  # noqa: FBT001 - click passes every option by name
    """Show every tool, or those of SERVER."""
    with connected(settings_from(**flags), flags, refresh=refresh, embed=False) as client:
        answer = client.get("/tools", [("server", server)])
    if output == "json":
        print_json(answer)
        return
    rows = [[tool["toolId"], _described(tool)] for tool in answer["tools"]]
    print_table(["Tool", "Description"], rows)


def _described(tool: dict[str, Any]) -> str:
    warning = tool.get("warning")
    return f"[{warning}] {tool['description']}" if warning else tool["description"]


def _row(server: dict[str, Any]) -> list[str]:
    wrong = [server["error"]] if server["error"] else []
    wrong += [f"left out {line}" for line in server["rejected"]]
    tools = str(server["tools"]) if server["state"] in {"ready", "connecting"} else ""
    return [server["name"], server["state"], tools, server["transport"], "; ".join(wrong)]
