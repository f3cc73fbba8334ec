"""``toolscript skills add|remove|list|search|update``."""

from pathlib import Path
from typing import Any

import click

from toolscript.config.settings import load_settings
from toolscript.surfaces.cli.connect import connected
from toolscript.surfaces.cli.options import explain_option, output_option, settings_options
from toolscript.surfaces.cli.output import (
    note,
    note_degraded,
    print_answer,
    print_explanation,
    print_json,
    print_no_hits,
)
from toolscript.text.display import counted, first_lines, printable

_SHOWN_PROBLEMS = 20


@click.group()
def skills() -> None:
    """Find, list and add skills: folders with a SKILL.md, Markdown and text files."""


@skills.command()
@click.argument("folder", type=click.Path(path_type=Path))
@settings_options("data_dir")
def add(folder: Path, **flags: Any) -> None:
    """Search FOLDER and its subfolders for skills from now on.

    A running gateway does so at once.
    """
    added = _folder_list(flags).add(folder)
    click.echo(f"{'added' if added else 'already there:'} {folder.resolve()}")


@skills.command()
@click.argument("folder", type=click.Path(path_type=Path))
@settings_options("data_dir")
def remove(folder: Path, **flags: Any) -> None:
    """Stop searching FOLDER, which was added. Its files are not touched."""
    removed = _folder_list(flags).remove(folder)
    click.echo(f"{'removed' if removed else 'was not added:'} {folder.resolve()}")


@skills.command("list")
@output_option
@settings_options("profile", "config", "data_dir")
def list_skills(output: str, **flags: Any) -> None:
    """List every skill, and the files that were left out with the reasons."""
    with connected(flags, only="", embed=False, skills="list_only") as client:
        answer = client.get("/skills")
    rows = [
        [skill["name"], ("" if skill["forModels"] else "(not for models) ") + skill["description"]]
        for skill in answer["skills"]
    ]
    empty = "no skills; add a folder with: toolscript skills add FOLDER"
    print_answer(answer, output, ["Skill", "Description"], rows, empty=empty)
    _note_problems(answer, output)


@skills.command()
@click.argument("words", nargs=-1, required=True, metavar="QUERY")
@settings_options("limit", "threshold")
@explain_option
@output_option
@settings_options("profile", "model", "config", "data_dir")
def search(words: tuple[str, ...], explain: bool, output: str, **flags: Any) -> None:
    """Find the skills that answer QUERY, each with its best passage."""
    query = " ".join(words)
    defaults = load_settings(flags).search
    parameters: list[tuple[str, object]] = [
        ("q", query),
        ("limit", defaults.limit),
        ("threshold", defaults.threshold),
        ("explain", explain),
    ]
    with connected(flags, only="", embed=False, skills="scan_once") as client:
        answer = client.get("/skills/search", parameters)
    note_degraded(answer)
    hits = answer["results"]
    if output == "table" and not hits:
        print_no_hits("skills", answer, answer["below"] and answer["below"]["name"])
        return
    rows = [[hit["name"], f"{hit['confidence']:.2f}", _passage(hit)] for hit in hits]
    print_answer(answer, output, ["Skill", "Confidence", "Passage"], rows)
    for hit in hits:
        if explain and output == "table":
            print_explanation(hit)


@skills.command()
@output_option
@settings_options("model", "config", "data_dir")
def update(output: str, **flags: Any) -> None:
    """Scan every folder now, and embed what has changed.

    A running gateway does so by itself.
    """
    with connected(flags, only="", embed=False, skills="scan_once") as client:
        answer = client.post("/skills/update", b"{}")
    if output == "json":
        print_json(answer)
        return
    folders = counted(len(answer["folders"]), "folder")
    click.echo(f"{counted(answer['totalSkills'], 'skill')} in {folders}")
    _note_problems(answer, output)


def _folder_list(flags: dict[str, Any]) -> Any:
    """Returns the list of added folders, without importing the engine."""
    from toolscript.skills.folders import AddedFolders  # noqa: PLC0415 - takes as long as the rest

    return AddedFolders.of(load_settings(flags).paths.data_dir)


def _passage(hit: dict[str, Any]) -> str:
    heading, text = hit["passage"]["heading"], hit["passage"]["text"]
    return printable(f"{heading}: {text}" if heading else text, 100)


def _note_problems(answer: dict[str, Any], output: str) -> None:
    if output == "json":
        return
    lines = [f"left out: {problem}" for problem in answer["problems"]]
    lines += [f"warning: {warning}" for warning in answer["warnings"]]
    for line in first_lines(lines, _SHOWN_PROBLEMS, "and {} more; --output json has them all"):
        note(line)
