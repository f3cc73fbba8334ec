"""Parses the content of a configuration file, in one way for the loader and the trust prompt."""

import codecs
import json
import re
import tomllib
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from toolscript.config.locations import EXAMPLE
from toolscript.errors import ConfigSyntaxError
from toolscript.text.json_values import as_list, as_object

MAX_DEPTH = 64
"""Levels of arrays and objects. The parser's own limit depends on who calls it."""


_NOISE = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*+"?)|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?', re.DOTALL
)
"""A string, or a comment. An unclosed one ends with the file, so that each is read once."""
_TRAILING_COMMA = re.compile(
    r'(?P<text>"(?:[^"\\]|\\.)*+"?)|(?<=[\w"}\]])\s*+,(?=\s*+[}\]])', re.DOTALL
)
"""A string, or a comma between a value and a closing bracket."""
_SIGN = re.compile(r"\S")
_DEEP_TABLE = re.compile(
    rf"""(?<![\w."'-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{MAX_DEPTH}}}"""
)
"""A dotted key that is too deep: the parser's time for one grows with the square of its length."""
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def parsed(path: Path, data: bytes) -> dict[str, Any]:
    """Returns the object that a file holds: TOML if its name says so, else JSON.

    JSON may have comments, and commas before closing brackets, as editors write it. Libraries for
    that do not tell a key that is there twice.

    Args:
        path: The file, for messages.
        data: Its content.

    Raises:
        ConfigSyntaxError: It is no JSON object, has a key twice, or is nested too deeply.
    """
    try:
        text = data.decode("utf-16" if data.startswith(UTF_16) else "utf-8-sig")
        document: Any = _toml(path, text) if path.suffix == ".toml" else _json(path, text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigSyntaxError(f"{path} is not valid TOML: {error}") from None
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        if not data.removeprefix(codecs.BOM_UTF8).strip():
            problem = f"is empty; expected {EXAMPLE}"
        elif path.suffix in {".yaml", ".yml"}:
            problem = "is YAML, which is not read; write it as JSON or TOML"
        raise ConfigSyntaxError(f"{path} {problem}") from None
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:  # no Unicode, or a number of thousands of digits
        raise ConfigSyntaxError(f"{path} cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise ConfigSyntaxError(f"{path} must hold a JSON object, such as {EXAMPLE}")
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _inner(each)]
    if level:
        raise _too_deep(path)
    return cast("dict[str, Any]", document)


def _toml(path: Path, text: str) -> Any:
    """Returns a document with its dates and times as text."""
    if _DEEP_TABLE.search(text):
        raise _too_deep(path)
    return msgspec.to_builtins(tomllib.loads(text))


def _json(path: Path, text: str) -> Any:
    hook = partial(_unique, path)
    try:
        return json.loads(text, object_pairs_hook=hook)
    except json.JSONDecodeError:
        return json.loads(without_trailing_commas(without_comments(text)), object_pairs_hook=hook)


def without_comments(text: str) -> str:
    """Returns JSON with blanks in place of its comments, so that each position stays."""
    return _NOISE.sub(_blank, text)


def without_trailing_commas(text: str) -> str:
    """Returns JSON without comments with blanks in place of commas before closing brackets."""
    return _TRAILING_COMMA.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    """Returns a string unchanged; blanks for a comment or comma, so that positions stay."""
    return match["text"] or _SIGN.sub(" ", match[0])


def _inner(value: Any) -> list[Any]:
    """Returns the members of an array or object; none of another value."""
    return [*as_object(value).values(), *as_list(value)]


def _too_deep(path: Path) -> ConfigSyntaxError:
    return ConfigSyntaxError(f"{path} is nested too deeply; at most {MAX_DEPTH} levels are read")


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of the file; raises `ConfigSyntaxError` if it has a key twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ConfigSyntaxError(f"{path} has the key {twice!r} twice in one object")
    return made
