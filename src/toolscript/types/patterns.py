"""Patterns of names, with ``*`` and ``?``: which match a name, and which of them counts."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

_T = TypeVar("_T")


def specificity_of(pattern: str) -> tuple[bool, int]:
    """Of two patterns of names that match, the greater one counts: a name, a longer pattern."""
    plain = pattern.replace("*", "").replace("?", "")
    return plain == pattern, len(plain)


def matching_values(stated: Mapping[str, _T], name: str) -> list[tuple[tuple[bool, int], _T]]:
    """Returns the values of the patterns that match a name, each with its pattern's specificity."""
    return [(specificity_of(key), value) for key, value in stated.items() if matches(name, (key,))]


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of the patterns, or matches one."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
