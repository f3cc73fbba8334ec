"""Outlines JSON text: a line for each item of its lists, its keys and types, values by path.

Only the level that is looked at is decoded, since a result may have millions of values.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec

from toolscript.errors import ArgumentsError
from toolscript.text.display import counted, printable

MAX_VALUES = 2_000_000
"""JSON with more values is not looked into."""
_MAX_KEYS, _MAX_DEPTH, _MAX_SHAPE = 12, 4, 700
_SHORT = 100
"""A list that is shorter stays on one line."""
_STEP = re.compile(
    r"\.?(?P<key>[\w$-]+)|\[(?P<index>\d{1,9})\]|\[(?P<first>\d{0,9}):(?P<end>\d{0,9})\]"
    r'|\[(?P<all>\*)\]|\["(?P<quoted>[^"\]]*)"\]'
)
_Json: TypeAlias = bytes | msgspec.Raw


class _Step(NamedTuple):
    """A step of a path: a key, or places of a list."""

    shown: str
    key: str | None = None
    places: "slice[int, int | None]" = slice(0, None)
    is_one: bool = False


def rows(text: bytes) -> str | None:
    """Returns JSON with a line for each row of its lists; None for text that is not JSON.

    Rows are the items of the outermost list, or of those in the outermost object.
    """
    if not text.lstrip().startswith((b"{", b"[")) or text.count(b",") > MAX_VALUES:
        return None
    try:
        compact = msgspec.json.format(text, indent=-1)
        return _lay_out(compact).decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _lay_out(text: bytes, *, inner: bool = False) -> bytes:
    if len(text) <= _SHORT:
        return text
    if text.startswith(b"["):
        return b"[\n" + b",\n".join(map(bytes, _items(text))) + b"\n]"
    if text.startswith(b"{") and not inner:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        lines = (
            msgspec.json.encode(key) + b": " + _lay_out(bytes(value), inner=True)
            for key, value in fields.items()
        )
        return b"{" + b",\n".join(lines) + b"}"
    return text


def shape(text: _Json, depth: int = _MAX_DEPTH) -> str:
    """Returns the keys and types of JSON: ``{rows: list of 5000 × {id: number}, total: number}``.

    A list has the shape of its first item. At most 700 characters.
    """
    return printable(_shape(bytes(text), depth), _MAX_SHAPE)


def _shape(text: bytes, depth: int) -> str:
    if text[:1] == b"{":
        fields = _fields(text)
        if not depth:
            return f"object of {counted(len(fields), 'key')}"
        shown = [
            f"{printable(key, 40)}: {_shape(bytes(value), depth - 1)}"
            for key, value in islice(fields.items(), _MAX_KEYS)
        ]
        more = len(fields) - len(shown)
        return "{" + ", ".join(shown + ([f"{more} more"] if more > 0 else [])) + "}"
    if text[:1] == b"[":
        items = _items(text)
        first = f" × {_shape(bytes(items[0]), depth - 1)}" if items and depth else ""
        return f"list of {len(items)}{first}"
    kinds = {b'"': "string", b"t": "boolean", b"f": "boolean", b"n": "null"}
    return kinds.get(text[:1], "number")


def select_value(text: str, path: str) -> tuple[list[bytes], bool]:
    """Returns the values at a path as JSON, and whether the path is for one value alone.

    Args:
        text: JSON.
        path: ``rows[10:20].name``, for example: ``[3]`` is one item of a list, ``[10:20]`` and
            ``[*]`` are several, each of which the rest of the path is for; ``["a key"]`` is a key
            with other characters.

    Raises:
        ArgumentsError: The path cannot be read, or leads nowhere, or no row has a key of it.
    """
    steps, encoded = _steps(path), text.encode()
    is_one = all(step.key is not None or step.is_one for step in steps)
    values = list(_select(encoded, steps))
    if not values:
        _check_keys(encoded, steps)
    return values, is_one


def _check_keys(text: bytes, steps: Sequence[_Step]) -> None:
    """Raises `ArgumentsError` for the first key of a path that nothing has."""
    parent: bytes | None = text
    for number, step in enumerate(steps, 1):
        value = next(_select(text, steps[:number]), None)
        if parent is not None and value is None and step.key is not None:
            raise ArgumentsError(_nowhere(step, parent))
        parent = value


def _steps(path: str) -> list[_Step]:
    rest = path.strip().removeprefix("$")
    steps: list[_Step] = []
    while rest:
        found = _STEP.match(rest)
        if found is None:
            raise ArgumentsError(
                f"path: {printable(rest, 40)!r} cannot be read; a path is such as rows[10:20].name"
            )
        rest, part = rest[found.end() :], found.groupdict()
        key = part["key"] if part["key"] is not None else part["quoted"]
        if key is not None:
            steps.append(_Step(found[0], key=key))
        elif part["index"] is not None:
            first = int(part["index"])
            steps.append(_Step(found[0], places=slice(first, first + 1), is_one=True))
        else:
            first, end = int(part["first"] or 0), part["end"]
            steps.append(_Step(found[0], places=slice(first, int(end) if end else None)))
    return steps


def _select(text: bytes, steps: Sequence[_Step], *, is_inner: bool = False) -> Iterator[bytes]:
    if not steps:
        yield text
        return
    step, rest = steps[0], steps[1:]
    if step.key is not None:
        fields = _fields(text) if text[:1] == b"{" else {}
        if step.key in fields:
            yield from _select(bytes(fields[step.key]), rest, is_inner=is_inner)
        elif not is_inner:  # a row may lack what other rows have
            raise ArgumentsError(_nowhere(step, text))
        return
    items = _items(text)[step.places] if text[:1] == b"[" else []
    if not items and not is_inner:
        raise ArgumentsError(_nowhere(step, text))
    for item in items:
        yield from _select(bytes(item), rest, is_inner=is_inner or not step.is_one)


def _nowhere(step: _Step, text: bytes) -> str:
    return f"path: there is no {printable(step.shown, 40)} in {shape(text, 1)}"


def _fields(text: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(text, type=dict[str, msgspec.Raw])


def _items(text: bytes) -> list[msgspec.Raw]:
    return msgspec.json.decode(text, type=list[msgspec.Raw])
