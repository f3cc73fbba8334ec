"""Parses the content of a configuration file, in one way for the loader and the trust prompt."""

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

from toolscript.config.locations import EXAMPLE
from toolscript.errors import ConfigSyntaxError

MAX_DEPTH = 64
"""Levels of arrays and objects. The parser's own limit depends on who calls it."""


def parsed(path: Path, data: bytes) -> dict[str, Any]:
    """Returns the object that a file holds.

    Args:
        path: The file, for messages.
        data: Its content.

    Raises:
        ConfigSyntaxError: It is no JSON object, has a key twice, or is nested too deeply.
    """
    try:
        document: Any = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=partial(_unique, path)
        )
    except json.JSONDecodeError as error:
        raise ConfigSyntaxError(
            f"{path} is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:  # no UTF-8, or a number of thousands of digits
        raise ConfigSyntaxError(f"{path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ConfigSyntaxError(f"{path} must hold a JSON object, such as {EXAMPLE}")
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _inner(each)]
    if level:
        raise _too_deep(path)
    return cast("dict[str, Any]", document)


def _inner(value: Any) -> list[Any]:
    """Returns the members of an array or object; none of another value."""
    if isinstance(value, dict):
        return [*cast("dict[str, Any]", value).values()]
    return cast("list[Any]", value) if isinstance(value, list) else []


def _too_deep(path: Path) -> ConfigSyntaxError:
    return ConfigSyntaxError(f"{path} is nested too deeply; at most {MAX_DEPTH} levels are read")


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of the file; raises `ConfigSyntaxError` where it has a key twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigSyntaxError(f"{path} has the key {twice!r} twice in one object")
    return made
