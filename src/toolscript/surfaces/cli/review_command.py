"""``toolscript review`` and ``toolscript permissions``: what a person decides, and has decided."""

import json
import re
import sys
from itertools import chain
from typing import Any

import click

from toolscript.errors import InputError
from toolscript.surfaces.cli import approval_prompt
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import note, print_answer, print_json
from toolscript.text.display import harmless, printable
from toolscript.text.wire_constants import REPAIRED
from toolscript.types import SEPARATOR, as_id, split_tool_id

_SEEN = re.compile(r"(.+)@([0-9a-f]{32})", re.DOTALL)
_CALL = re.compile("[0-9a-f]{8}")
"""The id of a call that waits; a tool's has its server in it."""
_MARKS = {"removed": ("[-", "-]", "red"), "added": ("{+", "+}", "green")}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--approve", "decision", flag_value="approve", help="Approve the named tools and calls."
)
@click.option("--reject", "decision", flag_value="reject", help="Reject the named tools and calls.")
@click.option(
    *("--for", "lasts"),
    type=click.Choice(["session", "server", "always"]),
    help="Allow such calls later, too: of the tool in the session, of its server's tools, always.",
)
@output_option
@settings_options("config", "data_dir")
def review(
    names: tuple[str, ...], decision: str | None, lasts: str | None, output: str, **flags: Any
) -> None:
    """Show the tools and calls that wait for you, and approve or reject them.

    NAME is a server, a tool's id or a call's; without one you see all.

    A tool is held when its definition has changed since it was accepted: you see the
    change, word by word. Nobody finds or calls it until you approve it. With ID@DIGEST,
    as shown, you decide about that definition alone. Of a server, --approve leaves out
    the tools that you have rejected; --reject takes an approval back, too.

    A call waits if a rule says so. Approved, it is made once, and others like it too
    with --for; it is refused if you do not approve it in time.
    """
    ids = [*map(as_id, names)]
    calls = [each for each in ids if _CALL.fullmatch(each)]
    if decision and not ids:
        raise InputError("nothing is named; give servers or ids, as toolscript review shows them")
    if lasts and not (decision == "approve" and calls):
        raise InputError("--for is about a call; give the id of one that waits, and --approve")
    tools = [each for each in ids if each not in calls]
    with connected(flags, embed=False) as client:
        if decision is None:
            _show(client, {*ids}, output)
            return
        for each in calls:
            answer = (lasts or "once") if decision == "approve" else "no"
            done = approval_prompt.answer(client, each, answer)
            click.echo(printable(f"{done['call']['toolId']}: {answer}"))
        if tools:
            _decide(client, decision, tools)


def _show(client: Client, names: set[str], output: str) -> None:
    """Shows what waits, of that what is named if anything is."""

    def is_shown(*own: str) -> bool:
        return not names or not names.isdisjoint(own)

    answer, waiting = client.get("/review"), client.get("/pending")["pending"]
    held = [each for each in answer["held"] if is_shown(each["toolId"], each["serverName"])]
    calls = [each for each in waiting if is_shown(each["id"], each["toolId"], each["server"])]
    changed = [each for each in answer["changed"] if is_shown(each, split_tool_id(each)[0])]
    if output == "json":
        shown = {"held": held, "totalHeld": len(held), "changed": changed, "pending": calls}
        print_json(shown)
        return
    for name in changed:
        note(printable(f"changed: {name}: it is not held"))
    if not held and not calls:
        click.echo("nothing waits for you")
    for call in calls:
        click.echo(printable(f"call {call['id']}: {approval_prompt.describe(call)}"))
    if calls:
        click.echo()
        note("answer with: toolscript review ID --approve [--for session], or --reject")
    for each in held:
        _print_held(each)
    if held:
        note("decide with: toolscript review ID@DIGEST --approve, or --reject")


def _decide(client: Client, decision: str, names: list[str]) -> None:
    """Approves or rejects tools, and approves those of servers that are named."""
    servers = [each for each in names if decision == "approve" and SEPARATOR not in each]
    tools = [each for each in names if each not in servers]
    decided: list[str] = []
    skipped: list[str] = []
    for each in [*_about(decision, tools), *({"approveServer": each} for each in servers)]:
        done = client.post("/review", json.dumps(each).encode())
        decided += done["approved"] + done["rejected"]
        skipped += done["skipped"]
    for tool in decided:
        click.echo(printable(f"{decision.removesuffix('e')}ed: {tool}"))
    if skipped:
        again = f"approve one by its name: toolscript review {skipped[0]} --approve"
        note(f"you have rejected {', '.join(skipped)}; {again}")
    elif not decided:
        click.echo("nothing was held")


def _about(verb: str, tools: list[str]) -> list[dict[str, Any]]:
    """Returns the decision about tools, each by its id, perhaps with its digest; none for none."""
    found = [match.groups() if (match := _SEEN.fullmatch(each)) else (each, "") for each in tools]
    seen = {name: digest for name, digest in found if digest}
    names = [name for name, _ in found]
    if seen and len(seen) < len(set(names)):
        raise InputError("some ids have a digest and some have none; give it with each, or none")
    return [{verb: names, **({"seen": seen} if seen else {})}] if names else []


def _print_held(held: dict[str, Any]) -> None:
    click.secho(printable(held["toolId"]), bold=True)
    click.echo(f"  digest: {printable(held['digest'])}")
    click.echo("  " + printable(f"{held['why']}"))
    if "ownName" in held:
        click.echo("  " + printable(f"{REPAIRED} {held['ownName']}"))
    if held["launch"]:
        click.echo("  " + printable(f"before: {held['launchBefore'] or '(unknown)'}"))
        click.echo("  " + printable(f"now:    {held['launch']}"))
    for change in held["changes"]:
        text = "".join(_mark(piece) for piece in change["pieces"])
        click.echo(f"  {printable(change['place'])}: {text}")
    click.echo()


def _mark(piece: dict[str, str]) -> str:
    """Returns a piece of a text, with marks and on a terminal in colour."""
    text = harmless(piece["text"])
    if piece["kind"] not in _MARKS:
        return text
    begin, end, colour = _MARKS[piece["kind"]]
    marked = f"{begin}{text}{end}"
    return click.style(marked, fg=colour) if sys.stdout.isatty() else marked


@click.command()
@click.option("--revoke", metavar="ID", help="Take back an answer for always.")
@output_option
@settings_options("config", "data_dir")
def permissions(revoke: str | None, output: str, **flags: Any) -> None:
    """Show rules about calls, the selections of profiles, and your answers for always."""
    with connected(flags, embed=False) as client:
        if revoke is not None:
            body = json.dumps({"id": revoke}).encode()
            done = client.post("/permissions/revoke", body)["revoked"]
            click.echo(printable(f"revoked: {done['toolId']} for {done['holder']}"))
            return
        found = client.get("/permissions")
    rules = chain(found["rules"], *found["profiles"].values())
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
