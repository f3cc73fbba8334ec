"""Reads a file of environment variables, as ``envFile`` in a server's entry names it.

The form is that of VS Code, https://code.visualstudio.com/docs/copilot/reference/mcp-configuration,
but for a ``#`` within a word: it begins no comment, since passwords have it.
"""

import re
from pathlib import Path

from toolscript.config.trust import read_file

_LINE = re.compile(r"(?:export\s+)?(?P<name>[\w.-]+)\s*[=:](?P<value>.*)")
_TEXT = re.compile(r"""(?:"[^"]*"|'[^']*'|`[^`]*`|(?<![\s"'`])\#|[^#])*+""")
"""A value up to its comment."""
_BREAKS = {r"\n": "\n", r"\r": "\r"}


def read_env_file(path: Path) -> tuple[dict[str, str], list[int]]:
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
