"""Reads the variables that a server's entry defines, in a file that ``envFile`` names too.

The form of a file is that of VS Code, https://code.visualstudio.com/docs/copilot/reference/mcp-configuration,
but for a ``#`` within a word: it begins no comment, since passwords have it.
"""

import re
from pathlib import Path

import msgspec

from toolscript.config.entry_aliases import EntryError
from toolscript.config.trust import read_file
from toolscript.config.variables import Variables
from toolscript.errors import ConfigSyntaxError
from toolscript.storage.atomic_files import expanded
from toolscript.types import PROJECT

_MAX_LINES = 5
"""Maximum number of lines that a note names."""
_LINE = re.compile(r"(?:export\s+)?(?P<name>[\w.-]+)\s*[=:](?P<value>.*)")
_TEXT = re.compile(r"""(?:"[^"]*"|'[^']*'|`[^`]*`|(?<![\s"'`])\#|[^#])*+""")
"""A value up to its comment."""
_BREAKS = {r"\n": "\n", r"\r": "\r"}


class Environment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The keys of an entry that define variables, which its other keys may name."""

    env: dict[str, str] = {}
    env_file: str = ""
    env_vars: tuple[str, ...] = ()
    """The variables of toolscript's own environment that the server gets."""


def environment_of(
    stated: Environment, variables: Variables, base: Path | None, notes: list[str]
) -> dict[str, str]:
    """Returns the variables that an entry defines: from the environment, a file, and ``env``.

    Args:
        stated: The entry's keys.
        variables: Has toolscript's own environment, and gets the values that may be secret.
        base: The project's folder; None if the entry is the user's.
        notes: Collects a line about those of the file that cannot be read.
    """
    environ = variables.environ
    passed = {name: environ[name] for name in stated.env_vars if name in environ}
    variables.hidden.update(filter(None, passed.values()))
    if not stated.env_file:
        return passed | stated.env
    if PROJECT in stated.env_file and base is None:
        raise EntryError(
            "envFile is in the project, which is not known yet when this file is read; "
            "state another path, or the variables in env"
        )
    path = variables.folder / expanded(stated.env_file.replace(PROJECT, str(base)))
    try:
        from_file, odd = _read_file(path)
    except ConfigSyntaxError as mistake:
        raise EntryError(f"envFile: {mistake}") from None
    if odd:
        lines = ", ".join(map(str, odd[:_MAX_LINES])) + (", …" if len(odd) > _MAX_LINES else "")
        notes.append(f"envFile: not NAME=value, so not read: line {lines} of {path}")
    return passed | from_file | stated.env


def _read_file(path: Path) -> tuple[dict[str, str], list[int]]:
    r"""Returns the variables of a file, and the numbers of the lines that cannot be read.

    A line is ``NAME=value``. Quotes around a value are taken off, and between double ones ``\n``
    is a line break; nothing else in it is replaced. Blank lines and comments count for nothing.

    Raises:
        ConfigSyntaxError: The file cannot be read.
    """
    text = read_file(path)[0].decode("utf-8-sig", "replace")
    variables: dict[str, str] = {}
    odd: list[int] = []
    for number, line in enumerate(re.split("\r\n?|\n", text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or "\0" in line:
            odd.append(number)
        else:
            variables[match["name"]] = _value_of(match["value"])
    return variables, odd


def _value_of(written: str) -> str:
    text = (_TEXT.match(written) or [""])[0].strip()
    sign = text[0] if len(text) > 1 and text[0] == text[-1] else ""
    if sign not in {'"', "'", "`"}:
        return text
    inner = text[1:-1]
    return re.sub(r"\\[nr]", lambda match: _BREAKS[match[0]], inner) if sign == '"' else inner
