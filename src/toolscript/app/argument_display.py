"""Shows a call's arguments to the person who decides about it: every key, long values cut."""

import json
from typing import Any, cast

import msgspec

from toolscript.text.display import printable
from toolscript.text.redaction import redact_known

MAX_ARGUMENTS_CHARS = 4_000
"""Characters shown of all arguments together."""
MAX_VALUE_CHARS = 300
"""Characters shown of one text among them."""
_MAX_DEPTH = 32


def shown_arguments(arguments: object, hidden: tuple[str, ...]) -> tuple[str, bool]:
    """Returns arguments as JSON on one line, and whether some of it is not shown.

    Each text is cut by itself, so that none of them can push another one out of sight. Something
    that only looks like a secret stays: it may be a command that hides as one.

    Args:
        arguments: The arguments of a call.
        hidden: Secrets that are blanked.
    """
    shortening = _Shortening(hidden)
    encoded = msgspec.json.encode(shortening.shorten(arguments, _MAX_DEPTH)).decode()
    return printable(_escape_invisible(redact_known([encoded], hidden)[0])), shortening.is_cut


class _Shortening:
    """One walk through arguments, with the room that is left for them."""

    def __init__(self, hidden: tuple[str, ...]) -> None:
        self._hidden = hidden
        self._room = MAX_ARGUMENTS_CHARS
        self.is_cut = False

    def shorten(self, value: Any, depth: int) -> Any:
        """Returns a value with short texts, and as many members as there is room for."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict | list):
            self._room -= 3  # its brackets and a comma, so that empty ones are bounded, too
            if not depth:
                self.is_cut = True
                return "…"
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            shown: dict[str, Any] = {}
            for key, member in members.items():
                if self._room <= 0:
                    more = self._more(len(members) - len(shown), "keys")
                    shown[self._choose_name("…", shown)] = more
                    break
                name = self._choose_name(self._text(key), shown)
                shown[name] = self.shorten(member, depth - 1)
            return shown
        if isinstance(value, list):
            items: list[Any] = []
            for item in cast("list[Any]", value):
                if self._room <= 0:
                    items.append(self._more(len(cast("list[Any]", value)) - len(items), "values"))
                    break
                items.append(self.shorten(item, depth - 1))
            return items
        self._room -= len(str(value)) + 1
        return value

    def _choose_name(self, name: str, shown: dict[str, Any]) -> str:
        """Returns a name for a key; another one that was cut or blanked may look the same."""
        while name in shown:
            name += "'"
            self._room -= 1
        return name

    def _text(self, text: str) -> str:
        whole = redact_known([text], self._hidden)[0]
        more = max(len(whole) - MAX_VALUE_CHARS, 0)
        head = whole[:MAX_VALUE_CHARS]
        shown = _escape_invisible(msgspec.json.encode(head).decode())
        self._room -= len(shown) + 2  # with what separates it
        return f"{head}… {self._more(more, 'characters')}" if more else head

    def _more(self, number: int, kind: str) -> str:
        self.is_cut = True
        return f"({number} more {kind})"


def _escape_invisible(encoded: str) -> str:
    """Returns JSON with escapes for the characters that `printable` would drop unseen."""
    if encoded.isprintable():
        return encoded
    shown = (c if c.isascii() or c.isprintable() else json.dumps(c)[1:-1] for c in encoded)
    return "".join(shown)
