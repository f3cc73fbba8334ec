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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from toolscript.config.settings import OPTIONS, Option
from toolscript.errors import ToolscriptError
from toolscript.surfaces.cli.gateway_command import NOT_RUNNING
from toolscript.surfaces.cli.main import cli
from toolscript.surfaces.http.openapi import schemas
from toolscript.surfaces.http.routes import every_endpoint
from toolscript.surfaces.server.error_codes import codes_of

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
WIDTH = 80
LINE = 100
GENERATED = re.compile(
    r"(<!-- generated: (\w+) -->).*?(<!-- end of what is generated -->)", re.DOTALL
)
COMMON_LINES = re.compile(
    r"\n  -h, --help +Show this message and exit\.|\n+  See toolscript --help for .*"
)
"""The lines at the end of each command's help."""
ENTRY = re.compile(r"\n  (-\S.*?)(?:  +|\n {10,})(\S.*(?:\n {10,}\S.*)*)")
"""An option in a command's help: its name and its description."""
SHARED_BY = 2
"""An option is explained once if at least as many commands describe it alike."""
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
        "commands share stand under *Shared options*. [Errors](errors.md) has the exit codes."
    )
    shared = _shared_options()
    rows = [f"| `{name}` | {text} |" for name, text in shared.items()]
    rows = [row.replace("[table|json]", r"[table\|json]") for row in rows]
    table = "\n".join(["| Option | Meaning |", "| --- | --- |", *rows])
    parts = ["# Command line reference", NOTE, _wrapped(intro), "## Shared options", table]
    for name, command, context in commands():
        text = command.get_help(context).rstrip()
        if command is not cli:
            text = _without_shared(COMMON_LINES.sub("", text), shared)
            text = re.sub(r"\n\nOptions:(?=\n\n|\Z)", "", text)
        parts += [f"## {name}", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def _shared_options() -> dict[str, str]:
    """The options that several commands describe alike, with their descriptions."""
    found = Counter(
        (" ".join(each[1].split()), " ".join(each[2].split()))
        for _, command, context in commands()
        for each in ENTRY.finditer(COMMON_LINES.sub("", command.get_help(context)))
    )
    return {name: text for (name, text), times in found.items() if times >= SHARED_BY}


def _without_shared(text: str, shared: dict[str, str]) -> str:
    """A command's help, with a line of the names of its shared options in their place."""
    names: list[str] = []

    def shorten(entry: re.Match[str]) -> str:
        name = " ".join(entry[1].split())
        if shared.get(name) != " ".join(entry[2].split()):
            return entry[0]
        names.append(name.split()[-2] if " " in name else name)
        return ""

    short = ENTRY.sub(shorten, text)
    line = textwrap.fill(", ".join(names), WIDTH, initial_indent="  ", subsequent_indent="  ")
    return f"{short}\n{line}" if names else short


def settings_page() -> str:
    """A table of the options, and a section of what the table lacks about each."""
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
        "their own `limit` and `threshold` along; the weights and the "
        "time-outs are those that the gateway was started with."
    )
    parts = ["# Settings", NOTE, _wrapped(intro), _wrapped(running), "\n".join(rows)]
    parts += [_section(option) for option in OPTIONS]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE, break_on_hyphens=False, break_long_words=False)


def _section(option: Option) -> str:
    text, _ = _split(option)
    kind = _type(option)
    stated = "" if kind in {"text", "path", "true or false"} else f"\n\n- Type: {kind}"
    return f"## {option.name}\n\n{text}{stated}"


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
    """A row an error: its meaning, its HTTP status and its exit code."""
    rows = ["| Error | Below | Meaning | HTTP | Exit |", "| --- | --- | --- | --: | --: |"]
    for kind in _errors():
        meaning = inspect.cleandoc(kind.__doc__ or "").split("\n\n", maxsplit=1)[0]
        codes = codes_of(kind)
        both = f"{codes.http_status} | {codes.exit_code}"
        above = "" if kind is ToolscriptError else _code(kind.__mro__[1].__name__)
        rows.append(f"| `{kind.__name__}` | {above} | {' '.join(meaning.split())} | {both} |")
    others = (
        "Other exit codes: 0 is success, also for a search that found nothing; 2 is also a command "
        "line that cannot be understood, or names a file that is not there; "
        f"{NOT_RUNNING} is `gateway status` where no gateway runs; 130 is an interruption from the "
        "keyboard."
    )
    intro = (
        "Everything that toolscript raises on purpose is a `ToolscriptError` from "
        "`toolscript.errors`. Its message says what is wrong, which value was seen and what to "
        "do. [Troubleshooting](../guides/troubleshooting.md) goes through the common ones. The "
        "table has each error's HTTP status, and the exit code of a command."
    )
    parts = [
        "# Errors",
        NOTE,
        _wrapped(intro),
        "\n".join(rows),
        _wrapped(others),
    ]
    return "\n\n".join(parts) + "\n"


def _errors(kind: type[ToolscriptError] = ToolscriptError) -> Iterator[type[ToolscriptError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == kind.__module__:
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
    properties = schemas(every_endpoint())[answer]["properties"].items()
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
