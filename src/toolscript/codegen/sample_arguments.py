"""Makes a value that fits a type, for examples of calls."""

import json
import math
from collections.abc import Mapping
from math import inf
from typing import Any, TypeAlias

from toolscript.codegen import type_tree as tree
from toolscript.text.words import words

_MAX_DEPTH = 6
_MAX_REPEATS = 50
"""Longer texts and lists are not made, however long they have to be."""
_TEXTS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00",
    "timezone": "Europe/Paris",
    **dict.fromkeys(("email", "mail"), "someone@example.com"),
    **dict.fromkeys(("url", "uri"), "https://example.com"),
    **dict.fromkeys(("dir", "directory", "folder"), "folder"),
    **dict.fromkeys(("file", "filename", "path"), "file.txt"),
}
"""A field's format, or a word of its name → an example of its text."""
_SCALARS: dict[str, Any] = {"boolean": True, "null": None}
_Hints: TypeAlias = Mapping[str, str]
"""The tags of a field's schema, and its name as ``name``."""


def sample(shape: tree.Shape) -> Any:
    """Returns the smallest JSON value of the type."""
    return _value(shape.root, {}, shape, 0)


def _value(kind: tree.Type, hints: _Hints, shape: tree.Shape, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    name = {"name": hints.get("name", "")}  # the bounds are those of the whole, not of its parts
    match kind:
        case tree.Array():
            value: Any = [_value(kind.item, name, shape, depth + 1)] * _count(hints, "minItems")
        case tree.Tuple():
            items = kind.items[: kind.required]
            value = [_value(each, name, shape, depth + 1) for each in items]
        case tree.Object():
            needed = (field for field in kind.fields if field.required)
            value = {field.name: _of_field(field, shape, depth) for field in needed}
        case tree.Union():
            value = _value(kind.members[0], hints, shape, depth)
        case tree.Reference():
            meant = shape.definitions.get(kind.name, shape.root)
            value = _value(meant, hints, shape, depth + 1)
        case tree.Constant():
            value = json.loads(kind.json)
        case tree.Scalar(kind="number" | "integer"):
            value = _number(hints)
        case tree.Scalar() if kind.kind != "string":
            value = _SCALARS[kind.kind]
        case _:
            text = _text(hints)
            value = text * math.ceil(_count(hints, "minLength") / len(text))
    return value


def _text(hints: _Hints) -> str:
    """Returns an example for the format, or for the last word of the name that has one."""
    keys = (hints.get("format", ""), *reversed(words(hints.get("name", ""))))
    return next((_TEXTS[key] for key in keys if key in _TEXTS), "text")


def _count(hints: _Hints, tag: str) -> int:
    """Returns a least length or number of items, at least 1."""
    text = hints.get(tag, "")
    return max(1, min(int(text), _MAX_REPEATS)) if text.isdecimal() else 1


def _number(hints: _Hints) -> int:
    """Returns a whole number within a field's bounds, near 1."""
    least = max(
        _read_bound(hints, "minimum", -inf), _read_bound(hints, "exclusiveMinimum", -inf) + 1
    )
    most = min(_read_bound(hints, "maximum", inf), _read_bound(hints, "exclusiveMaximum", inf) - 1)
    return math.floor(min(math.ceil(max(1, least)), most))


def _read_bound(hints: _Hints, tag: str, default: float) -> float:
    """Returns a bound; the default for none, as for the truth that older schemas have there."""
    bound: Any = json.loads(hints.get(tag, "null"))
    is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
    return bound if is_number and math.isfinite(bound) else default


def _of_field(field: tree.Field, shape: tree.Shape, depth: int) -> Any:
    return _value(field.type, {**dict(field.tags), "name": field.name}, shape, depth + 1)
