"""Reads a file of environment variables, as ``envFile`` in a server's entry names it."""

import re
from pathlib import Path

from toolscript.config.trust import read_file
from toolscript.errors import ConfigSyntaxError

_LINE = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)")


def read_env_file(path: Path) -> dict[str, str]:
    """Returns the variables of a file with a line ``NAME=value`` for each.

    A value may stand in quotes, which are taken off; nothing in it is replaced. Blank lines and
    those that begin with ``#`` count for nothing.

    Raises:
        ConfigSyntaxError: The file cannot be read, or a line is none of these. It shows no value.
    """
    text = read_file(path)[0].decode("utf-8-sig", "replace")
    variables: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or "\0" in line:
            raise ConfigSyntaxError(f"line {number} of {path} is not NAME=value")
        variables[match["name"]] = _unquote(match["value"])
    return variables


def _unquote(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value
