"""``toolscript search``."""

from typing import Any

import click

from toolscript.config.settings import MAX_QUERY_CHARS, load_settings
from toolscript.errors import QueryError
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import (
    explain_option,
    output_choice,
    refresh_option,
    repeatable,
    settings_options,
)
from toolscript.surfaces.cli.output import (
    note,
    note_degraded,
    note_missing,
    print_explanation,
    print_json,
    print_miss,
    print_no_hits,
    print_table,
)
from toolscript.surfaces.cli.types_command import print_types
from toolscript.text.display import held_line, printable


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="QUERY")
@settings_options("limit", "threshold", "steps")
@repeatable("--server", "servers", "NAME", "Search only this server's tools.")
@click.option("--skills", is_flag=True, help="Search skills as well as tools.")
@explain_option
@click.option("--why", metavar="TOOL", help="Show how this tool ranked, and why.")
@output_choice(
    "A table for people, Markdown with a typed client or definitions for models, or JSON.",
    "table",
    "types",
    "tools",
    "json",
)
@refresh_option
@settings_options("profile", "model", "config", "data_dir")
def search(
    words: tuple[str, ...],
    servers: tuple[str, ...],
    skills: bool,
    explain: bool,
    why: str | None,
    output: str,
    refresh: bool,
    **flags: Any,
) -> None:
    """Find the tools that do what QUERY says.

    QUERY is a sentence such as "commit my changes", or a tool's name, typos
    included. It needs no quotes.
    """
    query = " ".join(words)
    defaults = load_settings(flags).search
    if len(query) > MAX_QUERY_CHARS:
        raise QueryError(
            f"the query has {len(query)} characters; at most {MAX_QUERY_CHARS} are searched"
        )
    parameters: list[tuple[str, object]] = [
        ("q", query),
        ("limit", defaults.limit),
        ("threshold", defaults.threshold),
        ("steps", flags["steps"] or ("none" if defaults.steps == "none" else None)),
        *(("server", name) for name in servers),
        ("explain", explain),
        ("why", why),
        ("skills", skills),
        ("format", "mcp" if output == "tools" else None),
    ]
    with connected(flags, refresh=refresh, skills="scan_once" if skills else "off") as client:
        answer = client.get("/search", parameters)
        note_missing("searched", answer.get("notSearched", ()))
        note_degraded(answer)
        if held := answer.get("held"):
            note(printable(held_line(held)))
        if output == "types" and (tools := [h for h in answer["results"] if "toolId" in h]):
            print_types(client, tools)
            return
    if output == "json":
        print_json(answer)
    elif output == "tools":
        print_json({"tools": answer["tools"]})
    else:
        _print_hits(answer)


def _print_hits(answer: dict[str, Any]) -> None:
    hits = answer["results"]
    if hits:
        rows = [[_name(hit), f"{hit['confidence']:.2f}", _reason(hit)] for hit in hits]
        print_table(["Tool", "Confidence", "Reason"], rows)
        if answer["fit"] == "weak":
            note("fit: weak, as models read it: none of these surely does that")
    else:
        print_no_hits("tools", answer, answer["below"] and _name(answer["below"]))
    for hit in hits:
        if "explanation" in hit:
            print_explanation(hit)
    if "why" in answer:
        print_miss(answer["why"])


def _reason(hit: dict[str, Any]) -> str:
    warning = hit.get("warning")
    return f"{hit['reason']}; {warning}" if warning else hit["reason"]


def _name(hit: dict[str, Any]) -> str:
    return hit["toolId"] if "toolId" in hit else f"skill: {hit['name']}"
