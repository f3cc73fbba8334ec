"""Takes JSON whose form nobody has checked as an object, as a list, or as whole characters."""

import re
from typing import Any, cast

_HALVES = re.compile(
    rb"\\\\|(\\u[dD](?:[89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD])[c-fC-F][0-9a-fA-F]{2}))"
)
"""The escape of half a surrogate pair: texts that were cut within a character end with one."""


def as_object(value: object) -> dict[str, Any]:
    """Returns an object of JSON; an empty one in place of any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Returns an array of JSON; an empty one in place of any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def replace_half_characters(text: bytes) -> bytes:
    """Returns a JSON text with U+FFFD in place of each escape of half a surrogate pair."""
    return _HALVES.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)
