"""``toolscript permissions``."""

import json
from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import print_answer
from toolscript.text.display import printable


@click.command()
@click.option("--revoke", metavar="ID", help="Take back what was allowed for always.")
@output_option
@settings_options("config", "data_dir")
def permissions(revoke: str | None, output: str, **flags: Any) -> None:
    """Show rules about calls, the selections of profiles, and what you have allowed for always."""
    with connected(flags, embed=False) as client:
        if revoke is not None:
            body = json.dumps({"id": revoke}).encode()
            done = client.post("/permissions/revoke", body)["revoked"]
            click.echo(printable(f"revoked: {done['toolId']} for {done['holder']}"))
            return
        found = client.get("/permissions")
    rules = [*found["rules"], *(r for rules in found["profiles"].values() for r in rules)]
    rows = [
        ["rule", r["decision"], r["pattern"], r["toolClass"] or "all", r["origin"]] for r in rules
    ]
    for name, selection in found["selections"].items():
        rows.append(["selection", "find only", ", ".join(selection), "all", f"profile {name!r}"])
    for answer in found["remembered"]:
        origin = f"{answer['holder']}, {answer['since']}, id {answer['id']}"
        decision = "ask (the tool has changed)" if answer["id"] in found["outdated"] else "allow"
        tool_class = answer["toolClass"] or "all"
        rows.append(["answer", decision, answer["toolId"], tool_class, origin])
    header = ["Kind", "Decision", "Tools", "Class", "From"]
    empty = "no rules: reads and writes are allowed, and destructive tools asked about"
    print_answer(found, output, header, rows, empty=empty)
