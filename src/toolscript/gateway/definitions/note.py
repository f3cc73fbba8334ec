"""Notes for a person who reviews a tool: a note is no verdict, and nothing is blocked by one."""

from typing import Literal

import msgspec

from toolscript.text.display import printable

MAX_NOTE_CHARS = 300
MAX_QUOTE = 80

NoteKind = Literal[
    "invisible", "bidi", "ansi", "comment", "other-tools", "hiding", "credentials", "imitates"
]


class Note(msgspec.Struct, frozen=True):
    """A fact that a person should know before trusting a tool."""

    kind: NoteKind
    text: str
    """One sentence in plain English, safe to show, at most `MAX_NOTE_CHARS` long."""

    @classmethod
    def of(cls, kind: NoteKind, text: str) -> "Note":
        """Returns a note of a text that may be too long, or unsafe to show."""
        return cls(kind, printable(text, MAX_NOTE_CHARS))


def quoted(text: str) -> str:
    """Returns the beginning of a text in quotation marks, safe to show."""
    return f"“{printable(text, MAX_QUOTE)}”"
