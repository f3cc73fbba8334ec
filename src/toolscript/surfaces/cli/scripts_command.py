"""``toolscript scripts add|remove|list``."""

from pathlib import Path
from typing import Any

import click

from toolscript.config.settings import load_settings
from toolscript.config.stored_scripts import SERVER, ScriptFolder, parse_script
from toolscript.errors import InputError, UnknownNameError
from toolscript.surfaces.cli.options import output_option, reading, settings_options
from toolscript.surfaces.cli.output import note, print_answer
from toolscript.text.display import printable
from toolscript.types import tool_id


@click.group()
def scripts() -> None:
    """Store scripts in Python that models find and call like tools."""


@scripts.command()
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("data_dir")
def add(file: Path, **flags: Any) -> None:
    """Store the script in FILE, whose front matter has its name, description and parameters.

    A running gateway offers it at once. A script of the same name is replaced, and waits for your
    approval: toolscript review.
    """
    with reading(file):
        text = file.read_text("utf-8")
    try:
        _check_syntax(parse_script(text).text)
        name, replaced = _folder(flags).add(text)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    click.echo(f"{'replaced' if replaced else 'added'} {tool_id(SERVER, name)}")
    if replaced:
        note("a changed script waits for your approval: toolscript review")


@scripts.command()
@click.argument("name")
@settings_options("data_dir")
def remove(name: str, **flags: Any) -> None:
    """Delete the stored script NAME."""
    name = name.removeprefix(tool_id(SERVER, ""))
    if not _folder(flags).remove(name):
        advice = "see: toolscript scripts list"
        raise UnknownNameError(f"no script {printable(name, 60)!r} is stored; {advice}")
    click.echo(f"removed {tool_id(SERVER, name)}")


@scripts.command("list")
@output_option
@settings_options("data_dir")
def list_scripts(output: str, **flags: Any) -> None:
    """List the stored scripts."""
    stored, problems = _folder(flags).read()
    tools = [each.tool for each in stored]
    answer = {
        "scripts": [{"tool": t.id, "description": t.description} for t in tools],
        "problems": problems,
    }
    rows = [[tool.id, printable(tool.description, 100)] for tool in tools]
    empty = "no scripts; store one with: toolscript scripts add FILE"
    print_answer(answer, output, ["Script", "Description"], rows, empty=empty)
    if output == "table":
        for problem in problems:
            note(f"left out: {problem}")


def _check_syntax(text: str) -> None:
    try:
        from toolscript.app.script_sandbox import find_syntax_error  # noqa: PLC0415 - of an extra
    except ModuleNotFoundError:  # the gateway that runs the script needs it, not this command
        return
    if mistake := find_syntax_error(text):
        raise InputError(f"{mistake}; correct it, and add the file again")


def _folder(flags: dict[str, Any]) -> ScriptFolder:
    return ScriptFolder(load_settings(flags).paths.data_dir)
