"""``toolscript skills add|remove|list|search|update``."""

from pathlib import Path
from typing import Any

import click

from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.explain import print_explanation
from toolscript.surfaces.cli.options import output_option, settings_from, settings_options
from toolscript.surfaces.cli.output import counted, note, print_json, print_nothing, print_table
from toolscript.text import printable

_SHOWN_PROBLEMS = 20


@click.group()
def skills() -> None:
    """Find, list and add skills: folders with a SKILL.md, Markdown and text files."""


@skills.command()
@click.argument("folder", type=click.Path(path_type=Path))
@settings_options("data_dir")
def add(folder: Path, **flags: Any) -> None:
    """Look for skills in FOLDER and below it from now on.

    A running gateway takes it over at once.
    """
    added = _added(flags).add(folder)
    click.echo(f"{'added' if added else 'already there:'} {folder.resolve()}")


@skills.command()
@click.argument("folder", type=click.Path(path_type=Path))
@settings_options("data_dir")
def remove(folder: Path, **flags: Any) -> None:
    """Forget FOLDER, if it was added. Its files stay as they are."""
    removed = _added(flags).remove(folder)
    click.echo(f"{'removed' if removed else 'was not added:'} {folder.resolve()}")


@skills.command("list")
@output_option
@settings_options("config", "data_dir")
def list_skills(output: str, **flags: Any) -> None:
    """Show every skill, and what was left out and why."""
    with connected(
        settings_from(**flags), flags, only="", embed=False, skills="list_only"
    ) as client:
        answer = client.get("/skills")
    if output == "json":
        print_json(answer)
        return
    rows = [[each["name"], each["description"]] for each in answer["skills"]]
    if rows:
        print_table(["Skill", "Description"], rows)
    else:
        click.echo("no skills; add a folder with: toolscript skills add FOLDER")
    _tell_problems(answer["problems"])


@skills.command()
@click.argument("query")
@settings_options("limit", "threshold")
@click.option("--explain", is_flag=True, help="Show how each confidence came about.")
@output_option
@settings_options("model", "config", "data_dir")
def search(query: str, explain: bool, output: str, **flags: Any) -> None:  # noqa: FBT001 - click passes every option by name
    """Find the skills that explain what QUERY asks, each with its best passage."""
    settings = settings_from(**flags)
    parameters: list[tuple[str, object]] = [
        ("q", query),
        ("limit", settings.limit),
        ("threshold", settings.threshold),
        ("explain", "true" if explain else None),
    ]
    with connected(settings, flags, only="", embed=False, skills="scan_once") as client:
        answer = client.get("/skills/search", parameters)
    for reason in answer["degraded"]:
        note(f"degraded: {reason}")
    if output == "json":
        print_json(answer)
    elif answer["results"]:
        _print_hits(answer["results"])
    else:
        print_nothing("skills", answer, answer["below"] and answer["below"]["name"])


@skills.command()
@output_option
@settings_options("model", "config", "data_dir")
def update(output: str, **flags: Any) -> None:
    """Look at every folder now, and embed what changed.

    A running gateway does so by itself.
    """
    with connected(
        settings_from(**flags), flags, only="", embed=False, skills="scan_once"
    ) as client:
        answer = client.post("/skills/update", b"{}")
    if output == "json":
        print_json(answer)
        return
    folders = counted(len(answer["folders"]), "folder")
    click.echo(f"{counted(answer['totalSkills'], 'skill')} in {folders}")
    _tell_problems(answer["problems"])


def _added(flags: dict[str, Any]) -> Any:
    """The file of the folders, without the engine and all that it needs."""
    from toolscript.skills.folders import AddedFolders  # noqa: PLC0415 - takes as long as the rest

    return AddedFolders.of(settings_from(**flags).data_dir)


def _print_hits(results: list[dict[str, Any]]) -> None:
    rows = [[hit["name"], f"{hit['confidence']:.2f}", _passage(hit)] for hit in results]
    print_table(["Skill", "Confidence", "Passage"], rows)
    for hit in results:
        if "explanation" in hit:
            print_explanation(hit)


def _passage(hit: dict[str, Any]) -> str:
    heading, text = hit["passage"]["heading"], hit["passage"]["text"]
    return printable(f"{heading}: {text}" if heading else text, 100)


def _tell_problems(problems: list[str]) -> None:
    for problem in problems[:_SHOWN_PROBLEMS]:
        note(f"left out: {problem}")
    if len(problems) > _SHOWN_PROBLEMS:
        note(f"and {len(problems) - _SHOWN_PROBLEMS} more; --output json has them all")
