"""Where a reference leads: pointers, anchors and ids of one document. Nothing is fetched."""

from typing import Any, cast
from urllib.parse import unquote

MAX_STEPS = 20_000
"""Values that are looked at for a label."""
NOWHERE = object()


def find(document: Any, where: str) -> Any:
    """The schema at a reference, or `NOWHERE`: pointers, anchors and ids of this document."""
    base, _, fragment = where.partition("#")
    found = document
    if base:
        found = _labelled(document, "$id", base)
        if found is NOWHERE:
            return found
    fragment = unquote(fragment)
    if fragment and not fragment.startswith("/"):
        for key, label in (("$anchor", fragment), ("$dynamicAnchor", fragment)):
            anchored = _labelled(found, key, label)
            if anchored is not NOWHERE:
                return anchored
        return _labelled(found, "$id", f"#{fragment}")
    return _pointed(found, fragment.split("/")[1:])


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
    """The first schema that calls itself so; of an address its last part is enough."""
    ahead, left = [document], MAX_STEPS
    while ahead and left:
        left -= 1
        each = ahead.pop()
        if isinstance(each, dict):
            fields = cast("dict[str, Any]", each)
            own = fields.get(key)
            if isinstance(own, str) and (own == label or own.endswith(f"/{label}")):
                return fields
            ahead += fields.values()
        elif isinstance(each, list):
            ahead += cast("list[Any]", each)
    return NOWHERE
