"""Makes third-party text safe to show. Every command imports it, so it compiles no patterns."""

import unicodedata
from collections.abc import Sequence

_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_MAX_HELD = 5
"""Servers that `held_line` names."""
_MAX_READ_CHARS = 20_000
"""`printable` reads no more of a text that it cuts anyway."""


def printable(text: str, limit: int = 0) -> str:
    """Returns third-party text on one line, safe to show.

    Control, format and private characters (terminal escapes, bidirectional
    overrides) are dropped, white space is folded, and a text longer than
    ``limit`` characters is cut with an ellipsis. 0 means no limit.
    """
    head = text[:_MAX_READ_CHARS] if limit else text
    spaced = " ".join(head.split())
    clean = spaced if spaced.isprintable() else "".join(filter(str.isprintable, spaced))
    whole = len(head) == len(text) and (not limit or len(clean) <= limit)
    return clean if whole else clean[: limit - 1].rstrip() + "…"


def harmless(text: str) -> str:
    """Returns third-party text of several lines, safe to show.

    Characters that steer a terminal, are hidden or turn others around are replaced by
    U+FFFD. Line feeds, tabs and spaces of all widths stay.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_show, text))


def _show(character: str) -> str:
    shown = character.isprintable() or character in "\n\t"
    if shown or unicodedata.category(character) == "Zs":
        return character
    return "\N{REPLACEMENT CHARACTER}"


def counted(number: int, noun: str) -> str:
    """Returns ``1 tool``, ``2 tools``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def first_lines(lines: Sequence[str], most: int, rest: str = "and {} more") -> list[str]:
    """Returns the first few of some lines; if there are more, with one that says how many."""
    more = len(lines) - most
    return [*lines[:most], *([rest.format(more)] if more > 0 else [])]


def held_line(servers: Sequence[str], noun: str = "tool") -> str:
    """Returns a line about the held tools that a search would find, given the server of each."""
    names = ", ".join(sorted(set(servers))[:_MAX_HELD])
    tools = counted(len(servers), noun)
    return f"held: {tools} of {names} would answer; the user decides with: toolscript review"


def size_text(size: int | None) -> str:
    """Returns a number of bytes such as ``1.5 kB``; nothing for None."""
    if size is None:
        return ""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def encodable(text: str) -> str:
    """Returns the text with lone surrogates, which UTF-8 cannot encode, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
