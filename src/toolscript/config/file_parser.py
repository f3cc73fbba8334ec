"""Parses a configuration file and collects its entries, for the loader and the trust prompt alike.

A file may have the sections of several clients, and say beside them which servers are off.
"""

import codecs
import contextlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from toolscript.config.entry_aliases import listed, misspelt
from toolscript.config.locations import EXAMPLE
from toolscript.errors import ConfigSyntaxError
from toolscript.text.display import encodable, printable
from toolscript.text.json_values import as_list, as_object

MAX_DEPTH = 64
"""Levels of arrays and objects. The parser's own limit depends on who calls it."""
SECTIONS = ("mcpServers", "servers", "mcp", "context_servers", "mcp_servers", "mcp.servers")
"""The field's, and those of VS Code, opencode, Zed and Codex. All that a file has are read."""
TOP_LEVEL_KEYS = (*SECTIONS, "skills", "permissions", "profiles", "issuer")
SWITCHED_OFF_KEYS = ("disabledMcpServers", "disabledMcpjsonServers")
"""Claude Code's lists of servers that are off, beside the section."""

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
    try:
        return msgspec.to_builtins(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigSyntaxError(f"{path} is not valid TOML: {error}") from None


def _json(path: Path, text: str) -> Any:
    hook = partial(_unique, path)
    with contextlib.suppress(json.JSONDecodeError):
        return json.loads(text, object_pairs_hook=hook)
    try:
        return json.loads(without_trailing_commas(without_comments(text)), object_pairs_hook=hook)
    except json.JSONDecodeError as error:
        problem = f"is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        if not text.strip():
            problem = f"is empty; expected {EXAMPLE}"
        elif path.suffix in {".yaml", ".yml"}:
            problem = "is YAML, which is not read; write it as JSON or TOML"
        raise ConfigSyntaxError(f"{path} {problem}") from None


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


def entries_of(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries of all sections by name; those that a list switches off are disabled.

    Args:
        path: The file, for messages.
        document: Its content.

    Raises:
        ConfigSyntaxError: There is no section, one cannot be read, two differ about a server, or
            a list of servers that are off cannot be read.
    """
    entries: dict[str, Any] = {}
    places: dict[str, str] = {}
    for keys, section in sections_of(document):
        place = ".".join(keys)
        for name, entry in _by_name(path, place, section):
            if name in entries and entries[name] != entry:
                raise ConfigSyntaxError(
                    f"{path} has the server {printable(encodable(name), 60)!r} in {places[name]} "
                    f"and in {place}; keep the one that is meant"
                )
            entries[name], places[name] = entry, place
    known = {*SECTIONS, "skills"}.intersection(document)
    mistake = None if known - {"skills"} else misspelt(document, SECTIONS)
    if mistake or not known:
        raise ConfigSyntaxError(
            f"{path} has no object 'mcpServers' (it has {listed(document)}); "
            f"{mistake or f'expected {EXAMPLE}'}"
        )
    off = entries.keys() & _find_disabled(path, document, entries)
    return entries | {name: {"disabled": True} for name in off}


def keys_of(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Returns the keys on the way to each entry of a file by name; not to those in lists."""
    return {
        name: (*keys, name)
        for keys, section in sections_of(document)
        for name in as_object(section)
    }


def sections_of(document: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields each section with the keys on the way to it."""
    for key in SECTIONS:
        section = document.get(key)
        if key != "mcp" or not isinstance(section, dict):
            if key in document:
                yield (key,), section
            continue
        members = cast("dict[str, Any]", section)
        if isinstance(members.get("servers"), dict | list):  # in the settings of VS Code
            yield ("mcp", "servers"), members["servers"]
        else:  # in opencode, where the values are entries, and Gemini's options are none
            yield (key,), {n: each for n, each in members.items() if isinstance(each, dict)}


def _by_name(path: Path, place: str, section: Any) -> list[tuple[str, Any]]:
    """Returns the entries of a section; a list has each one's name in it."""
    if isinstance(section, dict):
        return [*cast("dict[str, Any]", section).items()]
    items = as_list(section)
    entries = [(name, item) for item in items if (name := _name(item))]
    if not isinstance(section, list) or len(entries) < len(items):
        kind = "a list with an entry without a name" if items else "neither object nor list"
        raise ConfigSyntaxError(
            f"{path} has {place}, which is {kind}; expected servers by name, such as {EXAMPLE}"
        )
    return entries


def _name(item: Any) -> str:
    name = as_object(item).get("name")
    return name if isinstance(name, str) else ""


def _find_disabled(path: Path, document: dict[str, Any], names: dict[str, Any]) -> set[str]:
    """Returns the servers that lists beside the sections switch off; off wins over on."""
    options = as_object(document.get("mcp"))
    off: set[str] = set()
    for key in SWITCHED_OFF_KEYS:
        off.update(_names(path, key, document.get(key)) or ())
    off.update(_names(path, "mcp.excluded", options.get("excluded")) or ())  # Gemini's
    allowed = _names(path, "mcp.allowed", options.get("allowed"))
    return off if allowed is None else off | (names.keys() - set(allowed))


def _names(path: Path, key: str, value: Any) -> list[str] | None:
    """Returns a list of names; None for one that is not there, or is an entry of that name."""
    if value is None or (key.startswith("mcp.") and isinstance(value, dict)):
        return None
    try:
        return msgspec.convert(value, list[str])
    except msgspec.ValidationError:
        raise ConfigSyntaxError(
            f"{path}: {key} is no list of names, so it cannot be told which servers are off"
        ) from None
