"""Collects the entries of servers from the sections of a configuration file.

A file may have the sections of several clients, and say beside them which servers are off.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec

from toolscript.config.aliases import listed, misspelt
from toolscript.config.locations import EXAMPLE
from toolscript.errors import ConfigSyntaxError
from toolscript.text.display import encodable, printable
from toolscript.text.json_values import as_list, as_object

SECTIONS = ("mcpServers", "servers", "mcp", "context_servers", "mcp_servers", "mcp.servers")
"""The field's, and those of VS Code, opencode, Zed and Codex. All that a file has are read."""
TOP_LEVEL_KEYS = (*SECTIONS, "skills", "permissions", "profiles", "issuer")
SWITCHED_OFF_KEYS = ("disabledMcpServers", "disabledMcpjsonServers")
"""Claude Code's lists of servers that are off, beside the section."""


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
    mistake = None if any(key in document for key in SECTIONS) else misspelt(document, SECTIONS)
    if mistake or not any(key in document for key in (*SECTIONS, "skills")):
        raise ConfigSyntaxError(
            f"{path} has no object 'mcpServers' (it has {listed(document)}); "
            f"{mistake or f'expected {EXAMPLE}'}"
        )
    off = _find_disabled(path, document, entries)
    return {name: {"disabled": True} if name in off else raw for name, raw in entries.items()}


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
