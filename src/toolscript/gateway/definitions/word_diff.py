"""The changes between two definitions, word by word, for a person to judge."""

import difflib
import re
from typing import Literal

import msgspec

from toolscript.gateway.definitions.normal_form import Definition, lines_of

MAX_CHANGES = 50
"""Places that are shown of one definition."""
MAX_WORDS = 2_000
"""Words of a text that are compared; the rest counts as one word."""
_CONTEXT = 12
"""Unchanged words that are shown before and after a change."""
_TOKENS = re.compile(r"\s+|[^\s]+")


class Piece(msgspec.Struct, frozen=True):
    """A part of a text that stayed, went or came."""

    kind: Literal["same", "removed", "added"]
    text: str


class Change(msgspec.Struct, frozen=True):
    """A place of a definition whose text has changed."""

    place: str
    """Such as ``description`` or ``inputSchema.properties.path.description``."""
    pieces: tuple[Piece, ...]


def changes(before: Definition | None, after: Definition) -> tuple[Change, ...]:
    """Returns the differences, in the order of the places; all is added if there was nothing."""
    old, new = dict(lines_of(before or {})), dict(lines_of(after))
    places = [place for place in dict.fromkeys((*old, *new)) if old.get(place) != new.get(place)]
    return tuple(
        Change(place, _pieces(old.get(place, ""), new.get(place, "")))
        for place in places[:MAX_CHANGES]
    )


def _pieces(before: str, after: str) -> tuple[Piece, ...]:
    old, new = _words(before), _words(after)
    pieces: list[Piece] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", _shorten(old[a:b])))
            continue
        if b > a:
            pieces.append(Piece("removed", "".join(old[a:b])))
        if d > c:
            pieces.append(Piece("added", "".join(new[c:d])))
    return tuple(pieces)


def _words(text: str) -> list[str]:
    tokens = _TOKENS.findall(text)
    rest = "".join(tokens[MAX_WORDS:])
    return [*tokens[:MAX_WORDS], *([rest] if rest else [])]


def _shorten(tokens: list[str]) -> str:
    """Returns unchanged text without its middle, if that is long."""
    if len(tokens) <= 4 * _CONTEXT:
        return "".join(tokens)
    return f"{''.join(tokens[: 2 * _CONTEXT])} … {''.join(tokens[-2 * _CONTEXT :])}"
