"""What is secret in a configuration: in addresses, in arguments, in headers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from urllib.parse import unquote_plus, urlsplit

_SECRET_CHARS = 6
"""Shorter values are words such as "true", which messages need."""
_NAME = re.compile(r"[\w.-]+")
"""An option or a variable,"""
_KEY = re.compile("key|token|secret|passw|auth|credential", re.IGNORECASE)
"""and what it is called when it is secret."""


def url_secrets(url: str) -> Iterator[str]:
    """User information and the values of the query, as they are written and as they are meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    user = parts.netloc.rpartition("@")[0]
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    written = [user, *user.split(":", 1), *(value or name for name, _, value in pairs)]
    for value in written:
        yield value
        yield unquote_plus(value)


def argument_secrets(args: Sequence[str]) -> Iterator[str]:
    """What follows ``--api-key``, or stands behind it or ``API_KEY`` after ``=`` or ``:``."""
    for argument, following in zip_longest(args, args[1:], fillvalue=""):
        name, *value = re.split("[=:]", argument, maxsplit=1)
        if _NAME.fullmatch(name) and _KEY.search(name):
            stated = not value and name.startswith("-") and not following.startswith("-")
            yield from credentials(value[0].strip() if value else following if stated else "")
        if "://" in argument:
            yield from url_secrets(argument)


def credentials(value: str) -> Iterator[str]:
    """The value, and what is left of it behind a word such as ``Bearer``."""
    yield value
    yield value.partition(" ")[2]


def telling(values: Iterable[str]) -> tuple[str, ...]:
    """Those long enough to be recognised, their single lines too, longest first."""
    parts = {part for value in values for part in (value, *map(str.strip, value.splitlines()))}
    long = [part for part in parts if len(part) >= _SECRET_CHARS]
    return tuple(sorted(long, key=lambda part: (-len(part), part)))
