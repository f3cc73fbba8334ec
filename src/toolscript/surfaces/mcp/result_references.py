"""Replaces references to stored results in the arguments of a call.

A model passes a large result on to another tool without reading it: the argument
``{"$result": "HANDLE", "path": "rows[0:20].name"}``, at any depth, stands for that part of the
result whose handle a model was given. Without a path it stands for the whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from toolscript.errors import ArgumentsError
from toolscript.surfaces.mcp.result_truncation import StoredResult
from toolscript.text.display import printable
from toolscript.text.wire_constants import REFERENCE

_Place: TypeAlias = tuple[Any, Any, dict[str, Any]]
"""A dict or list, the key or index in it, and the reference that is there."""
PATH = "path"
MAX_REFERENCES = 32
"""Maximum number of references in one call."""
MAX_CHARS = 16_000_000
"""Maximum length of the values that take their places in one call."""
_PART_BYTES = 256 * 1024
_MAX_DEPTH = 64
"""References in deeper values stay as they are."""


class ResultReferences:
    """The arguments of one call with references to stored results; false if there are none.

    Args:
        arguments: The arguments, which stay as they are.
    """

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._places: list[_Place] = []
        self._arguments: dict[str, Any] = self._copy(arguments, 0)

    def __bool__(self) -> bool:
        """Whether any value is a reference."""
        return bool(self._places)

    def replace(self, load: Callable[[str], bytes]) -> dict[str, Any]:
        """Returns the arguments with the values that their references stand for.

        Args:
            load: Returns the stored result of a handle; raises `UnknownNameError` for others.

        Raises:
            ArgumentsError: A reference cannot be read, leads nowhere, or stands for too much.
            UnknownNameError: The caller has no result of that handle.
        """
        if len(self._places) > MAX_REFERENCES:
            raise ArgumentsError(f"a call takes at most {MAX_REFERENCES} results; send fewer")
        chars = 0
        for parent, key, fields in self._places:
            handle, path = fields[REFERENCE], fields.get(PATH, "")
            is_readable = isinstance(handle, str) and isinstance(path, str)
            if not is_readable or fields.keys() - {REFERENCE, PATH}:
                form = f'{{"{REFERENCE}": HANDLE, "{PATH}": "rows[0].id"}}'
                raise ArgumentsError(f"{printable(str(fields), 80)} is no reference; send {form}")
            parent[key], size = _part_of(load(handle), path)
            chars += size
            if chars > MAX_CHARS:
                raise ArgumentsError(
                    f"the results in a call have more than {MAX_CHARS:,} characters; send less of "
                    "them"
                )
        return self._arguments

    def _copy(self, value: Any, depth: int) -> Any:
        """Returns a copy of a value; notes the places of its references."""
        if depth > _MAX_DEPTH or not isinstance(value, dict | list):
            return value
        whole = cast("Any", value)
        copy: Any = whole.copy()
        for key, item in whole.items() if isinstance(value, dict) else enumerate(whole):
            if isinstance(item, dict) and REFERENCE in item:
                self._places.append((copy, key, cast("dict[str, Any]", item)))
            else:
                copy[key] = self._copy(item, depth + 1)
        return copy


def _part_of(content: bytes, path: str) -> tuple[Any, int]:
    """Returns the value at a path of a stored result, and its length in characters."""
    stored = msgspec.msgpack.decode(content, type=StoredResult)
    if not path and not stored.is_json:
        return stored.text, len(stored.text)
    texts, is_one = stored.select(path)
    values = [_decode(text) for text in texts]
    return values[0] if is_one else values, sum(map(len, texts))


def _decode(text: bytes) -> Any:
    """Returns JSON as objects. Decodes large JSON by parts: no other thread runs meanwhile."""
    if len(text) > _PART_BYTES and text[:1] == b"[":
        return [_decode(bytes(item)) for item in msgspec.json.decode(text, type=list[msgspec.Raw])]
    if len(text) > _PART_BYTES and text[:1] == b"{":
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return {key: _decode(bytes(value)) for key, value in fields.items()}
    return msgspec.json.decode(text)
