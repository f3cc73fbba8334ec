"""Resolves the references of a JSON Schema inside its own document; nothing is fetched."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast
from urllib.parse import unquote

MAX_STEPS = 20_000
"""Values that are searched for labels."""
NOWHERE = object()
_MAX_DIGITS = 9
"""Digits of an index in a pointer."""
_MAX_ENDS = 8
"""Parts at the end of an address that may stand for all of it."""


class References:
    """The schemas of a document that a reference may mean."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def find(self, where: str) -> Any:
        """Returns the schema that a pointer, an anchor or an id refers to, or `NOWHERE`."""
        base, _, fragment = where.partition("#")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._labels.get(f"#{fragment}", NOWHERE)
        target = self._labels.get(base, NOWHERE) if base else self._document
        return target if target is NOWHERE else _follow(target, fragment.split("/")[1:])

    @cached_property
    def _labels(self) -> dict[str, Any]:
        """Id, or anchor behind ``#`` → schema, the first of those that are called so."""
        labels: dict[str, Any] = {}
        ahead, left = [self._document], MAX_STEPS
        while ahead and left:
            left -= 1
            value = ahead.pop()
            if isinstance(value, dict):
                schema = cast("dict[str, Any]", value)
                for label in _labels_of(schema):
                    labels.setdefault(label, schema)
                ahead += schema.values()
            elif isinstance(value, list):
                ahead += cast("list[Any]", value)
        return labels


def _follow(document: Any, parts: list[str]) -> Any:
    for part in parts:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = cast("dict[str, Any]", document)[key]
        elif isinstance(document, list) and _is_index(key, cast("list[Any]", document)):
            document = cast("list[Any]", document)[int(key)]
        else:
            return NOWHERE
    return document


def _is_index(key: str, values: list[Any]) -> bool:
    # Python refuses to convert very many digits.
    return key.isdecimal() and len(key) <= _MAX_DIGITS and int(key) < len(values)


def _labels_of(schema: dict[str, Any]) -> Iterator[str]:
    """Yields the anchors of a schema, its id, and the last parts of that, which are enough."""
    for key in ("$anchor", "$dynamicAnchor"):
        if isinstance(anchor := schema.get(key), str):
            yield f"#{anchor}"
    if isinstance(own := schema.get("$id"), str):  # before 2019, one with a # was an anchor
        yield own
        parts = own.rsplit("/", _MAX_ENDS)[1:]
        yield from ("/".join(parts[at:]) for at in range(len(parts)))
