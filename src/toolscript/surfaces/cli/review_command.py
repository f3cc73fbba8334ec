"""``toolscript review``, ``toolscript approve`` and ``toolscript reject``."""

import json
import re
import sys
from typing import Any

import click

from toolscript.errors import InputError
from toolscript.surfaces.cli import approval_prompt
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.gateway_client import Client
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import note, print_json
from toolscript.text.display import harmless, printable
from toolscript.text.wire_constants import REPAIRED
from toolscript.types import split_tool_id

_SEEN = re.compile(r"(.+)@([0-9a-f]{32})", re.DOTALL)
_CALL = re.compile("[0-9a-f]{8}")
"""The id of a call that waits; a tool's has its server in it."""
_MARKS = {"removed": ("[-", "-]", "red"), "added": ("{+", "+}", "green")}


@click.command()
@click.argument("server", required=False)
@output_option
@settings_options("config", "data_dir")
def review(server: str | None, output: str, **flags: Any) -> None:
    """Show the tools and calls that wait for you, or those of SERVER.

    A tool is held when its definition has changed since it was accepted: you see
    the change, word by word. It is neither found nor called until you approve it.
    A call waits if a rule says so; it is refused if you do not approve it in time.
    """
    with connected(flags, embed=False) as client:
        answer = client.get("/review")
        waiting = client.get("/pending")["pending"]
    held = [each for each in answer["held"] if server in {None, each["serverName"]}]
    calls = [each for each in waiting if server in {None, each["server"]}]
    changed = [each for each in answer["changed"] if server in {None, split_tool_id(each)[0]}]
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
        note("answer with: toolscript approve ID [--for session], or toolscript reject ID")
    for each in held:
        _print_held(each)
    if held:
        note("approve with: toolscript approve ID@DIGEST, or toolscript approve --server NAME")


@click.command()
@click.argument("names", nargs=-1, metavar="[ID[@DIGEST]]...")
@click.option("--server", metavar="NAME", help="Approve this server's held tools.")
@click.option(
    *("--for", "answer"),
    type=click.Choice(["session", "server", "always"]),
    help="Allow such calls later, too: of the tool in the session, of its server's tools, always.",
)
@settings_options("config", "data_dir")
def approve(names: tuple[str, ...], server: str | None, answer: str | None, **flags: Any) -> None:
    """Approve tools and calls that wait, by the ids that `toolscript review` shows.

    Held tools can be found and called from now on. With the digest, what has changed
    again since then is not approved. --server leaves out the tools that you have
    rejected. A call is made once, and others like it too with --for.
    """
    calls, tools = _split(names)
    if not names and server is None:
        raise InputError("nothing is named; give ids, or --server NAME")
    if answer and not calls:
        raise InputError("--for is about a call; give the id of one that waits")
    decision = _about("approve", tools) if tools else {}
    if server is not None:
        if "seen" in decision:
            raise InputError("--server approves what is held now; leave it out, or the digests")
        decision["approveServer"] = server
    with connected(flags, embed=False) as client:
        _answer_calls(client, calls, answer or "once")
        done = _decide(client, decision) if decision else {}
    if not done:
        return
    skipped: list[str] = done["skipped"]
    if done["approved"] or not skipped:
        _print_done("approved", done["approved"])
    if skipped:
        again = f"approve one by its name: toolscript approve {skipped[0]}"
        note(f"you have rejected {', '.join(skipped)}; {again}")


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="ID[@DIGEST]...")
@settings_options("config", "data_dir")
def reject(names: tuple[str, ...], **flags: Any) -> None:
    """Reject tools and calls: tools are held until you approve them, calls are refused.

    This takes the approval of an accepted tool back, too.
    """
    calls, tools = _split(names)
    with connected(flags, embed=False) as client:
        _answer_calls(client, calls, "no")
        if tools:
            _print_done("rejected", _decide(client, _about("reject", tools))["rejected"])


def _split(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Returns the ids of calls, and the rest."""
    calls = [each for each in names if _CALL.fullmatch(each)]
    return calls, [each for each in names if each not in calls]


def _answer_calls(client: Client, calls: list[str], answer: str) -> None:
    for each in calls:
        done = approval_prompt.answer(client, each, answer)
        click.echo(printable(f"{done['call']['toolId']}: {answer}"))


def _about(verb: str, tools: list[str]) -> dict[str, Any]:
    """Returns a decision about tools, each by its id, perhaps with its digest."""
    found = [match.groups() if (match := _SEEN.fullmatch(each)) else (each, "") for each in tools]
    seen = {name: digest for name, digest in found if digest}
    names = [name for name, _ in found]
    if seen and len(seen) < len(set(names)):
        raise InputError("some ids have a digest and some have none; give it with each, or none")
    return {verb: names} | ({"seen": seen} if seen else {})


def _decide(client: Client, decision: dict[str, Any]) -> dict[str, Any]:
    return client.post("/review", json.dumps(decision).encode())


def _print_done(what: str, tools: list[str]) -> None:
    for tool in tools:
        click.echo(printable(f"{what}: {tool}"))
    if not tools:
        click.echo("nothing was held")


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
