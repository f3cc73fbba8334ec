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
        target = self._labels.get((0, base), NOWHERE) if base else self._document
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._labels.get((id(target), fragment), NOWHERE)
        return target if target is NOWHERE else _follow(target, fragment.split("/")[1:])

    @cached_property
    def _labels(self) -> dict[tuple[int, str], Any]:
        """Identity of a schema with an id, and an anchor in it → schema; 0 and an id → schema.

        The whole document is searched without regard to the ids between.
        """
        labels: dict[tuple[int, str], Any] = {}
        ahead, left = [(self._document, self._document)], MAX_STEPS
        while ahead and left:
            left -= 1
            value, resource = ahead.pop()
            if isinstance(value, dict):
                schema = cast("dict[str, Any]", value)
                own = schema.get("$id")
                if isinstance(own, str) and not own.startswith("#"):
                    resource = schema
                    for end in _ends(own):
                        labels.setdefault((0, end), schema)
                for anchor in _anchors(schema):
                    labels.setdefault((id(resource), anchor), schema)
                    labels.setdefault((id(self._document), anchor), schema)
                ahead += [(each, resource) for each in schema.values()]
            elif isinstance(value, list):
                ahead += [(each, resource) for each in cast("list[Any]", value)]
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


def _ends(address: str) -> Iterator[str]:
    """Returns an address, and its last parts, which are enough."""
    yield address
    parts = address.rsplit("/", _MAX_ENDS)[1:]
    yield from ("/".join(parts[at:]) for at in range(len(parts)))


def _anchors(schema: dict[str, Any]) -> Iterator[str]:
    for key in ("$anchor", "$dynamicAnchor"):
        if isinstance(schema.get(key), str):
            yield schema[key]
    if isinstance(own := schema.get("$id"), str) and own.startswith("#"):  # before 2019
        yield own[1:]
