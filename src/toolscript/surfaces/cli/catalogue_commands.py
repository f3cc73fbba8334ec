"""Shows servers, tools and models: ``list-servers|list-tools|describe|logs|restart|models``."""

import shlex
from dataclasses import asdict
from typing import Any

import click

from toolscript.surfaces.cli.connect import connected, gateway
from toolscript.surfaces.cli.gateway_client import target
from toolscript.surfaces.cli.options import (
    output_choice,
    output_option,
    refresh_option,
    settings_options,
)
from toolscript.surfaces.cli.output import (
    class_label,
    count_held,
    note,
    note_missing,
    print_answer,
    print_json,
    print_table,
    print_text,
)
from toolscript.text.display import counted, printable
from toolscript.text.wire_constants import REPAIRED

_HEADER = ["Server", "State", "Tools", "Transport", "What is wrong"]


@click.command("list-servers")
@output_option
@refresh_option
@click.option(
    "--resources",
    is_flag=True,
    help="Show the memory and processor time of the processes that run.",
)
@settings_options("profile", "config", "data_dir")
def list_servers(output: str, refresh: bool, resources: bool, **flags: Any) -> None:
    """List the configured servers with state, number of tools, and problems."""
    with connected(flags, refresh=refresh, embed=False) as client:
        answer = client.get("/servers", [("resources", resources)])
    header, rows = _HEADER, [*map(_row, answer["servers"])]
    if resources:
        used = map(_resources, answer["servers"])
        header = [*header[:-1], "Instances", "Processes", "Memory", "CPU time", header[-1]]
        rows = [[*row[:-1], *cells, row[-1]] for row, cells in zip(rows, used, strict=True)]
    print_answer(answer, output, header, rows, prose=(len(header) - 1,))
    known = [s for s in answer["servers"] if s["snapshot"] and s["state"] != "connecting"]
    if known and output == "table":
        note("as of the last connection; --refresh connects again")


@click.command("list-tools")
@click.argument("server", required=False)
@output_option
@refresh_option
@settings_options("profile", "config", "data_dir")
def list_tools(server: str | None, output: str, refresh: bool, **flags: Any) -> int:
    """List every tool, or only those of SERVER.

    Servers that do not work, and held tools, are named on standard error. The exit status is 1
    if no tool is listed because a server does not work.
    """
    with connected(flags, refresh=refresh, embed=False) as client:
        answer = client.get("/tools", [("server", server)])
        servers = client.get("/servers")["servers"]
    asked = [each for each in servers if server in {None, each["name"]}]
    missing = [each for each in map(_missing, asked) if each and (server or not each["isOff"])]
    note_missing("listed", missing)
    for line in filter(None, map(count_held, asked)):
        note(line)
    rows = [[tool["toolId"], class_label(tool), _description(tool)] for tool in answer["tools"]]
    print_answer(answer, output, ["Tool", "Class", "Description"], rows)
    return 1 if missing and not answer["tools"] else 0


def _missing(server: dict[str, Any]) -> dict[str, Any]:
    """Returns why none of a server's tools is listed; nothing if it works."""
    name, state = server["name"], server["state"]
    if server["tools"] or state in {"ready", "resting"}:
        return {}
    is_off = state == "disabled"
    way_on = f"disabled; turn it on with: {shlex.join(['toolscript', 'enable', name])}"
    why = way_on if is_off else server["error"] or state
    return {"server": name, "why": why, "snapshot": server["snapshot"], "isOff": is_off}


def _description(tool: dict[str, Any]) -> str:
    warnings = [tool["warning"]] if tool.get("warning") else []
    warnings += ["changed"] * (tool["trust"] == "changed")
    return " ".join([*(f"[{each}]" for each in warnings), tool["description"]])


def _row(server: dict[str, Any]) -> list[str]:
    problems = [server["error"]] if server["error"] else []
    problems += server["unread"]
    problems += [f"left out {line}" for line in server["rejected"]]
    problems += filter(None, [count_held(server)])
    tools = str(server["tools"]) if server["state"] in {"ready", "resting", "connecting"} else ""
    return [server["name"], server["state"], tools, server["transport"], "; ".join(problems)]


def _resources(server: dict[str, Any]) -> list[str]:
    """Returns empty cells for a server that has no process, or none that is known."""
    if not server.get("processes"):
        return [""] * 4
    memory, cpu = f"{server['memoryMiB']:.1f} MiB", f"{server['cpuSeconds']:.2f} s"
    return [str(server["instances"]), str(server["processes"]), memory, cpu]


@click.command()
@output_choice("A table for people, or JSON.", "table", "json")
def models(output: str) -> None:
    """List the embedding models that are known.

    MTEB is the published mean nDCG@10 of its retrieval tasks. Choose a model with
    --model or TOOLSCRIPT_SEARCH_MODEL.
    """
    from toolscript.embedding.models import MODELS  # noqa: PLC0415 - not for the other lists

    if output == "json":
        print_json({"models": [asdict(spec) for spec in MODELS]})
        return
    rows = [
        [
            spec.repository or "bundled",
            f"{spec.megabytes:g} MB",
            spec.parameters,
            str(spec.dimensions),
            "-" if spec.mteb is None else f"{spec.mteb:.2f}",
            spec.pooling,
            spec.use,
        ]
        for spec in MODELS
    ]
    print_table(["Model", "Size", "Parameters", "Dimensions", "MTEB", "Pooling", "Use"], rows)


@click.command()
@click.argument("tool")
@output_option
@settings_options("profile", "config", "data_dir")
def describe(tool: str, output: str, **flags: Any) -> None:
    """Show what TOOL does and takes: its whole description and schema.

    TOOL is an id, such as git__git_log.
    """
    from toolscript.types import SEPARATOR, as_id  # noqa: PLC0415 - imports more than lists need

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
