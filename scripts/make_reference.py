"""Write the parts of the documentation that the code knows best.

``docs/reference/settings.md``, ``cli.md`` and ``errors.md`` are written as a whole, and the tables
of ``http.md`` between their markers. With ``--check`` nothing is written: the exit
status is 1 if a file is not what would be written.
"""

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from toolscript import errors
from toolscript.config.settings import OPTIONS, Option
from toolscript.errors import ToolscriptError
from toolscript.surfaces.cli.gateway_command import NOT_RUNNING
from toolscript.surfaces.cli.main import cli
from toolscript.surfaces.http.answers import schemas
from toolscript.surfaces.server.error_codes import codes_of

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
WIDTH = 80
LINE = 100
GENERATED = re.compile(
    r"(<!-- generated: (\w+) -->).*?(<!-- end of what is generated -->)", re.DOTALL
)
COMMON_LINES = re.compile(r"\n  -h, --help +Show this message and exit\.|\n+  For --config and .*")
"""The lines at the end of each command's help."""
NOTE = "<!-- Written by scripts/make_reference.py: change the code, then run that. -->"


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command by its full name, groups before what is in them."""
    root = click.Context(cli, info_name="toolscript", terminal_width=WIDTH, **cli.context_settings)
    yield from _below("toolscript", cli, root)


def _below(
    name: str, command: click.Command, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    yield name, command, context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            child = command.get_command(context, each)
            if child is not None:
                below = click.Context(child, info_name=each, parent=context, terminal_width=WIDTH)
                yield from _below(f"{name} {each}", child, below)


def cli_page() -> str:
    """Every command's own help."""
    intro = (
        "What each command says with `--help`, which every command has. Options that several "
        "commands share are explained in [Settings](settings.md), exit codes in "
        "[Errors](errors.md)."
    )
    parts = ["# Command line reference", NOTE, _wrapped(intro)]
    for name, command, context in commands():
        text = command.get_help(context).rstrip()
        if command is not cli:
            text = re.sub(r"\n\nOptions:(?=\n\n|\Z)", "", COMMON_LINES.sub("", text))
        parts += [f"## {name}", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """A table of the options, and a section about each."""
    rows = ["| Setting | Environment variable | Flag | Default |", "| --- | --- | --- | --- |"]
    rows += [
        f"| [{option.name}](#{option.name}) | {_code(option.env)} | {_code(option.flag)} "
        f"| {_default(option)} |"
        for option in OPTIONS
    ]
    intro = (
        "A flag wins over the environment variable, and that over the default. A variable that is "
        "empty counts as not set. A value of the wrong type or outside its range is refused with "
        "a message that names the variable or flag."
    )
    running = (
        "A gateway reads its settings once, when it starts. Commands that find one running send "
        "their own `limit` and `threshold` along; the weights, the model's threads and the "
        "time-outs are those that the gateway was started with."
    )
    parts = ["# Settings", NOTE, _wrapped(intro), _wrapped(running), "\n".join(rows)]
    parts += [_section(option) for option in OPTIONS]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE, break_on_hyphens=False, break_long_words=False)


def _section(option: Option) -> str:
    text, _ = _split(option)
    lines = [f"## {option.name}", "", text, "", f"- Type: {_type(option)}"]
    lines += [f"- Default: {_default(option)}"]
    if option.env:
        lines += [f"- Environment: `{option.env}`"]
    if option.flag:
        flag = f"- Flag: `{option.flag}` of {_takers(option)}"
        lines += [textwrap.fill(flag, LINE, subsequent_indent="  ", break_on_hyphens=False)]
    return "\n".join(lines)


def _takers(option: Option) -> str:
    """The commands that take an option's flag; for the flag of most of them, the exceptions."""
    leaves = [(name, each) for name, each, _ in commands() if not isinstance(each, click.Group)]
    takers = [name for name, each in leaves if any(p.name == option.name for p in each.params)]
    others = [name for name, _ in leaves if name not in takers]
    if not others:
        return "every command"
    if len(others) < len(takers):
        return f"every command but {_codes(others)}"
    return _codes(takers)


def _codes(names: list[str]) -> str:
    return ", ".join(map(_code, names))


def _split(option: Option) -> tuple[str, str]:
    """The sentence of an option, and the default that its text states."""
    found = re.fullmatch(r"(.*?)(?:\s+\[default: (.*)\])?", option.help)
    return (found[1], found[2] or "") if found else (option.help, "")


def _default(option: Option) -> str:
    _, stated = _split(option)
    if stated:
        return f"`{stated}`"
    if option.default is None:
        return "none"
    return f"`{str(option.default).lower() if option.kind is bool else option.default}`"


def _type(option: Option) -> str:
    names = {"int": "whole number", "float": "number", "bool": "true or false", "Path": "path"}
    kind = names.get(option.kind.__name__, "text")
    if option.choices:
        return f"one of {', '.join(f'`{choice}`' for choice in option.choices)}"
    if option.bounds:
        low, high = option.bounds
        return f"{kind} from {low:g} to {high:g}"
    return kind


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def errors_page() -> str:
    """The tree, and what each error means on the two surfaces."""
    tree = inspect.cleandoc(errors.__doc__ or "").split("\n\n")[1]
    rows = ["| Error | Meaning | HTTP status | Exit code |", "| --- | --- | --: | --: |"]
    for kind in _errors():
        meaning = inspect.cleandoc(kind.__doc__ or "").split("\n\n", maxsplit=1)[0]
        codes = codes_of(kind)
        both = f"{codes.http_status} | {codes.exit_code}"
        rows.append(f"| `{kind.__name__}` | {' '.join(meaning.split())} | {both} |")
    others = (
        "Other exit codes: 0 is success, also for a search that found nothing; 2 is also a command "
        "line that cannot be understood, or names a file that is not there; "
        f"{NOT_RUNNING} is `gateway status` where no gateway runs; 130 is an interruption from the "
        "keyboard."
    )
    intro = (
        "Everything that toolscript raises on purpose is a `ToolscriptError` from "
        "`toolscript.errors`. Its message says what is wrong, which value was seen and what to "
        "do. [Troubleshooting](../guides/troubleshooting.md) goes through the common ones."
    )
    parts = [
        "# Errors",
        NOTE,
        _wrapped(intro),
        f"```text\n{inspect.cleandoc(tree)}\n```",
        "\n".join(rows),
        _wrapped(others),
    ]
    return "\n\n".join(parts) + "\n"


def _errors(kind: type[ToolscriptError] = ToolscriptError) -> Iterator[type[ToolscriptError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


def statuses() -> str:
    """A status a row: the errors that are answered with it."""
    rows = ["| Status | `type` in the answer |", "| --: | --- |"]
    statuses = {kind: codes_of(kind).http_status for kind in _errors()}
    for status in sorted(set(statuses.values())):
        kinds = [f"`{kind.__name__}`" for kind in statuses if statuses[kind] == status]
        rows.append(f"| {status} | {', '.join(kinds)} |")
    return "\n".join(rows)


def fields(answer: str) -> str:
    """A field a row: those of an answer's that are described."""
    properties = schemas()[answer]["properties"].items()
    rows = [f"| `{name}` | {_meaning(field)} |" for name, field in properties if _meaning(field)]
    return "\n".join(["| Field | Meaning |", "| --- | --- |", *rows])


def _meaning(field: dict[str, Any]) -> str:
    values = " or ".join(f"`{value}`" for value in field.get("enum", ()))
    return " ".join(filter(None, [field.get("description", ""), values]))


def http_page() -> str:
    """The page with its tables replaced: of the statuses, and of answers by their types' names."""

    def table(marks: re.Match[str]) -> str:
        rows = statuses() if marks[2] == "statuses" else fields(marks[2])
        return f"{marks[1]}\n\n{rows}\n\n{marks[3]}"

    return GENERATED.sub(table, (REFERENCE / "http.md").read_text("utf-8"))


def main() -> int:
    """Run the program; the result is its exit status."""
    parser = argparse.ArgumentParser(description="Write the generated reference pages.")
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args().check
    pages = {
        "settings.md": settings_page(),
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        "http.md": http_page(),
    }
    stale = 0
    for name, text in pages.items():
        file = REFERENCE / name
        if file.is_file() and file.read_text("utf-8") == text:
            continue
        stale = 1
        print(f"{file} is stale" if check else f"wrote {file}")
        if not check:
            file.write_text(text, "utf-8")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main())
