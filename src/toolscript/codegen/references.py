"""Resolves the references of a JSON Schema inside its own document; nothing is fetched."""

from typing import Any, cast
from urllib.parse import unquote

MAX_STEPS = 20_000
"""Values that are searched for a label."""
NOWHERE = object()


def find(document: Any, where: str) -> Any:
    """Returns the schema that a pointer, an anchor or an id refers to, or `NOWHERE`."""
    base, _, fragment = where.partition("#")
    target = document
    if base:
        target = _labelled(document, "$id", base)
        if target is NOWHERE:
            return target
    fragment = unquote(fragment)
    if fragment and not fragment.startswith("/"):
        for key, label in (("$anchor", fragment), ("$dynamicAnchor", fragment)):
            anchored = _labelled(target, key, label)
            if anchored is not NOWHERE:
                return anchored
        return _labelled(target, "$id", f"#{fragment}")
    return _pointed(target, fragment.split("/")[1:])


def _pointed(document: Any, parts: list[str]) -> Any:
    for part in parts:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = cast("dict[str, Any]", document)[key]
        elif isinstance(document, list) and key.isdecimal() and int(key) < len(document):  # pyright: ignore[reportUnknownArgumentType] - third-party JSON
            document = cast("list[Any]", document)[int(key)]
        else:
            return NOWHERE
    return document


def _labelled(document: Any, key: str, label: str) -> Any:
    """Returns the first schema with this label at ``key``; the end of an address is enough."""
    ahead, left = [document], MAX_STEPS
    while ahead and left:
        left -= 1
        value = ahead.pop()
        if isinstance(value, dict):
            schema = cast("dict[str, Any]", value)
            own = schema.get(key)
            if isinstance(own, str) and (own == label or own.endswith(f"/{label}")):
                return schema
            ahead += schema.values()
        elif isinstance(value, list):
            ahead += cast("list[Any]", value)
    return NOWHERE
