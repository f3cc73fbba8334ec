"""Makes distinct identifiers of TypeScript and Python from the names of servers and tools.

An identifier depends on the whole catalogue, not on the tools of one module, so that code written
with one module works with every other.
"""

import hashlib
import keyword
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

from toolscript.types import tool_id

_Key = TypeVar("_Key", str, tuple[str, str])
TYPE_ENDINGS = ("Params", "Result")
_DIGITS = 4
"""Hex digits of a SHA-256 that follow an identifier which is already in use."""
_CAPITALS = re.compile(r"^(?:[A-Z]+(?![a-z])|[A-Z])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ASCII_WORDS = re.compile(r"[A-Za-z0-9]+")


def _words(text: str) -> list[str]:
    """Returns the runs of characters that both languages allow: none beyond the first plane."""
    if text.isascii():
        return _ASCII_WORDS.findall(text)
    normal = unicodedata.normalize("NFKC", text)
    allowed = (
        c if c.isalnum() and f"_{c}".isidentifier() and c <= "\uffff" else " " for c in normal
    )
    return "".join(allowed).split()


def _following(text: str) -> str:
    """Returns the words in the form of `pascal`, to be put behind others."""
    return "".join([_capital(word[0]) + word[1:] for word in _words(text)])


def _capital(letter: str) -> str:
    upper = letter.upper()
    return upper if len(upper) == 1 else letter  # as of ß


def pascal(text: str) -> str:
    """``read_file`` → ``ReadFile``; begins with a capital, or with a letter that has none."""
    joined = _following(text)
    return joined if joined[:1].isidentifier() else f"N{joined}"


def camel(text: str) -> str:
    """``desktop-commander`` → ``desktopCommander``."""
    return _CAPITALS.sub(lambda run: run[0].lower(), pascal(text))


def snake(text: str) -> str:
    """``desktop-commander`` → ``desktop_commander``."""
    parts = [_HUMP.sub("_", word) for word in _words(text)]
    name = "_".join(parts).lower()
    return name if name[:1].isidentifier() else f"n{name}"


def python_method(name: str) -> str:
    """Returns a tool's name if Python allows it for a method, otherwise a similar one."""
    if not (name.isascii() and name.isidentifier() and name[0] != "_"):
        made = "_".join(_words(name))
        name = made if made[:1].isidentifier() else f"n{made}"
    # A method with the name of a type would hide the type.
    shadows = name[0].isupper() and name.endswith(TYPE_ENDINGS)
    return f"{name}_" if shadows else _no_keyword(name)


def _no_keyword(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name


class Numbering:
    """Makes names distinct by the numbers that follow them."""

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)
        self._last: dict[str, int] = {}
        """Name → number that followed it last."""

    def new(self, name: str) -> str:
        """Returns the name, followed by 2 or more if it is in use already."""
        spelled = name
        while spelled in self._used:
            self._last[name] = self._last.get(name, 1) + 1
            spelled = f"{name}{self._last[name]}"
        self._used.add(spelled)
        return spelled


def distinct(names: Iterable[_Key], make: Callable[[_Key], str]) -> dict[_Key, str]:
    """Returns name → identifier as ``make`` makes it, no two alike.

    A name that is an identifier stays as it is. Of other names that have the same identifier, or
    that of such a name, each gets a part of its SHA-256: code that was written before one of them
    came fails, rather than calls another tool.
    """
    forms = {name: make(name) for name in sorted(names)}
    counts, spellings = Counter(forms.values()), set(forms.values())
    identifiers = dict(forms)
    for name, form in forms.items():
        if counts[form] > 1 and name != form:
            digits = _DIGITS
            while identifiers[name] in spellings:
                identifiers[name] = f"{form}_{_digest(name)[:digits]}"
                digits += 1
            spellings.add(identifiers[name])
    return identifiers


def _digest(name: str | tuple[str, str]) -> str:
    whole = name if isinstance(name, str) else tool_id(*name)
    return hashlib.sha256(whole.encode("utf-8", "backslashreplace")).hexdigest()


class Identifiers:
    """The identifiers of a catalogue's tools; each kind is made when it is first needed."""

    def __init__(self, tools: Iterable[tuple[str, str]]) -> None:
        """Take pairs of a server's and a tool's name."""
        self._tools: dict[str, list[str]] = {}
        for server, tool in tools:
            self._tools.setdefault(server, []).append(tool)

    @cached_property
    def stems(self) -> dict[tuple[str, str], str]:
        """Server and tool → the prefix of their types: ``FilesystemReadFile``."""
        pairs = [(server, tool) for server, tools in self._tools.items() for tool in tools]
        parts = {server: pascal(server) for server in self._tools}
        return distinct(pairs, lambda pair: parts[pair[0]] + _following(pair[1]))

    @cached_property
    def camel(self) -> dict[str, str]:
        """Server → its key in TypeScript."""
        return distinct(self._tools, camel)

    @cached_property
    def snake(self) -> dict[str, str]:
        """Server → its attribute in Python."""
        return distinct(self._tools, lambda server: _no_keyword(snake(server)))

    @cached_property
    def classes(self) -> dict[str, str]:
        """Server → its class in Python."""
        return distinct(self._tools, lambda server: f"_{pascal(server)}Tools")

    @cached_property
    def methods(self) -> dict[str, dict[str, str]]:
        """Server → tool → its method in Python. In TypeScript a tool keeps its own name."""
        return {server: distinct(tools, python_method) for server, tools in self._tools.items()}
