"""``toolscript list-servers``, ``list-tools`` and ``models``."""

import shlex
from dataclasses import asdict
from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
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
)

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
