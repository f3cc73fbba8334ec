"""Makes a value that fits a type, for examples of calls."""

import json
from typing import Any

from toolscript.codegen import type_tree as tree

_MAX_DEPTH = 6
_TEXTS = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00",
    "mail": "someone@example.com",
    "url": "https://example.com",
    "uri": "https://example.com",
    "dir": "folder",
    "folder": "folder",
    "file": "file.txt",
    "path": "file.txt",
}
"""Part of a field's format or name → an example of its text; the first that matches is used."""
_SCALARS: dict[str, Any] = {"number": 1, "integer": 1, "boolean": True, "null": None}


def sample(shape: tree.Shape) -> Any:
    """Returns the smallest JSON value of the type."""
    return _value(shape.root, "", shape, 0)


def _value(kind: tree.Type, hint: str, shape: tree.Shape, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    match kind:
        case tree.Array():
            value: Any = [_value(kind.item, hint, shape, depth + 1)]
        case tree.Tuple():
            value = [_value(each, hint, shape, depth + 1) for each in kind.items[: kind.required]]
        case tree.Object():
            needed = (field for field in kind.fields if field.required)
            value = {field.name: _of_field(field, shape, depth) for field in needed}
        case tree.Union():
            value = _value(kind.members[0], hint, shape, depth)
        case tree.Reference():
            meant = shape.definitions.get(kind.name, shape.root)
            value = _value(meant, hint, shape, depth + 1)
        case tree.Constant():
            value = json.loads(kind.json)
        case tree.Scalar() if kind.kind != "string":
            value = _SCALARS[kind.kind]
        case _:
            value = next((text for part, text in _TEXTS.items() if part in hint), "text")
    return value


def _of_field(field: tree.Field, shape: tree.Shape, depth: int) -> Any:
    formats = [value for tag, value in field.tags if tag == "format"]
    hint = " ".join([*formats, field.name]).casefold()
    return _value(field.type, hint, shape, depth + 1)
