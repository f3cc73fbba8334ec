"""Replaces references to stored results in the arguments of a call.

A model passes a large result on to another tool without reading it: the argument
``{"$result": "HANDLE", "path": "rows[0:20].name"}``, at any depth, stands for that part of the
result whose handle a model was given. Without a path it stands for the whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from toolscript.errors import ArgumentsError
from toolscript.surfaces.mcp.result_truncation import StoredResult
from toolscript.text.display import printable
from toolscript.text.json_outline import select_value

MARK, PATH = "$result", "path"
MAX_REFERENCES = 32
"""Maximum number of references in one call."""
MAX_CHARS = 16_000_000
"""Maximum length of the values that take their places in one call."""
_MAX_DEPTH = 64


class _References:
    """The references of one call, as they are replaced."""

    def __init__(self, load: Callable[[str], bytes]) -> None:
        self._load = load
        self._count = self._chars = 0

    def replace(self, value: Any, depth: int = 0) -> Any:
        """Returns a value with its references replaced."""
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self.replace(each, depth + 1) for each in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        if MARK in fields:
            return self._resolve(fields)
        return {key: self.replace(each, depth + 1) for key, each in fields.items()}

    def _resolve(self, fields: dict[str, Any]) -> Any:
        handle, path = fields[MARK], fields.get(PATH, "")
        if not isinstance(handle, str) or not isinstance(path, str) or fields.keys() - {MARK, PATH}:
            shown = printable(str(fields), 80)
            raise ArgumentsError(
                f'{shown} is no reference; send {{"{MARK}": HANDLE, "{PATH}": "rows[0].id"}}'
            )
        self._count += 1
        if self._count > MAX_REFERENCES:
            raise ArgumentsError(f"a call takes at most {MAX_REFERENCES} results; send fewer")
        stored = msgspec.msgpack.decode(self._load(handle), type=StoredResult)
        value, size = _part_of(stored, path)
        self._chars += size
        if self._chars > MAX_CHARS:
            raise ArgumentsError(
                f"the results in a call have more than {MAX_CHARS:,} characters; send less of them"
            )
        return value


def _part_of(stored: StoredResult, path: str) -> tuple[Any, int]:
    """Returns the value at a path, and its length in characters."""
    if path in stored.blocks:
        block = stored.blocks[path]
        return msgspec.json.decode(block), len(block)
    if path and not stored.is_json:
        raise ArgumentsError("path is for JSON, and this result is a text; leave path out")
    if not stored.is_json:
        return stored.text, len(stored.text)
    text, is_one = select_value(stored.text, path)
    values = [msgspec.json.decode(each) for each in text]
    return values[0] if is_one else values, sum(map(len, text))


def has_references(value: Any, depth: int = 0) -> bool:
    """Whether any object in a value is a reference."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return MARK in fields or any(has_references(each, depth + 1) for each in fields.values())
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return any(has_references(each, depth + 1) for each in items)


def replace_references(
    arguments: Mapping[str, Any], load: Callable[[str], bytes]
) -> dict[str, Any]:
    """Returns arguments with the values that their references stand for.

    Args:
        arguments: The arguments of a call.
        load: Returns the stored result of a handle; raises `UnknownNameError` for others.

    Raises:
        ArgumentsError: A reference cannot be read, leads nowhere, or stands for too much.
        UnknownNameError: The caller has no result of that handle.
    """
    references = _References(load)
    return {name: references.replace(value) for name, value in arguments.items()}
