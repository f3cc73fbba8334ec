"""Validates arguments against a third party's JSON Schema, if that takes bounded work.

A schema of a few kilobytes can ask for more work than any machine does. So its work is estimated
before it is compiled, and again with the arguments: a schema that is over the bound, or that cannot
be used, finds no mistakes. Its server, which wrote it, decides.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any, cast
from urllib.parse import unquote

import msgspec
from jsonschema_rs import (
    FancyRegexOptions,
    ReferencingError,
    ValidationError,
    ValidationErrorKind,
    Validator,
    validator_for,
)

MAX_WORK = 1_000_000
"""Visits of a subschema to a value, some 50 ms at most."""
_MAX_DEPTH = 100
_CACHED = 1024
_MAX_BACKTRACKS = 10_000
"""Steps of a regular expression that has look-around; others take linear time."""
_CHARS_PER_STEP = 100
_UNKNOWN = MAX_WORK, 0
"""The estimate of a reference that may name anything."""
_OTHER_BASES, _OTHER_REFERENCES = ("$id", "id"), ("$dynamicRef", "$recursiveRef")
"""Keywords after which the estimate cannot follow a reference."""


def validate(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], limit: int, *, ours: bool = False
) -> list[ValidationError]:
    """Returns the first mistakes of the arguments, whose texts name a value ``it``.

    Args:
        schema: The schema of a tool's arguments.
        arguments: The arguments, decoded from JSON.
        limit: Maximum number of mistakes.
        ours: Whether the schema is our own, which checks arguments of any size.
    """
    try:
        compiled = _compile(msgspec.json.encode(schema))
        if compiled is None:
            return []
        validator, visits, returns = compiled
        if ours:
            arguments = cast("Mapping[str, Any]", _flatten(arguments, _MAX_DEPTH))
        else:
            values, depth = _measure(arguments)
            if depth > _MAX_DEPTH or values * visits * returns**depth > MAX_WORK:
                return []
        mistakes = filter(_is_decided, validator.iter_errors(arguments))
        return list(islice(mistakes, limit))
    except (ValueError, TypeError, RecursionError):
        return []  # a number, a character or a depth that is not supported


def find_part(schema: Any, path: Iterable[str | int]) -> Any:
    """Returns the part of a schema at a path, or None."""
    part = schema
    for step in path:
        if isinstance(part, dict):
            part = cast("dict[str, Any]", part).get(str(step))
        elif isinstance(part, list) and str(step).isdecimal():
            part = next(islice(cast("list[Any]", part), int(step), None), None)
        else:
            return None
    return part


@lru_cache(_CACHED)
def _compile(encoded: bytes) -> tuple[Validator, int, int] | None:
    """Returns a schema's validator, visits to each value, and returns to itself at each level."""
    schema: Any = msgspec.json.decode(encoded)
    if _measure(schema)[1] > _MAX_DEPTH or (estimate := _estimate(schema))[0] > MAX_WORK:
        return None
    patterns = FancyRegexOptions(backtrack_limit=_MAX_BACKTRACKS)
    try:
        validator = validator_for(schema, pattern_options=patterns, offline=True, mask="it")
    except (ValidationError, ReferencingError, ValueError, TypeError):
        return None
    return validator, *estimate


def _is_decided(mistake: ValidationError) -> bool:
    return not isinstance(mistake.kind, ValidationErrorKind.BacktrackLimitExceeded)


def _measure(value: Any) -> tuple[int, int]:
    """Returns the number of values, a long text being several, and the depth."""
    level, values, depth = [value], 0, 0
    while level and depth <= _MAX_DEPTH:
        values += sum(map(_weigh, level))
        level = list(chain.from_iterable(map(_children, level)))
        depth += 1
    return values, depth


def _weigh(value: Any) -> int:
    return 1 + len(value) // _CHARS_PER_STEP if isinstance(value, str) else 1


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield from fields.keys()
        yield from fields.values()
    elif isinstance(value, list):
        yield from cast("list[Any]", value)


def _estimate(root: Any) -> tuple[int, int]:
    """Returns the visits to one value, all references followed, and the references back, or 1.

    A recursive schema may visit each level of the arguments so many times as the one above it.
    """
    estimates: dict[int, tuple[int, int]] = {}

    def visit(node: Any) -> tuple[int, int]:
        if not isinstance(node, dict | list):
            return _weigh(node), 0
        if (estimate := estimates.get(id(cast("Any", node)))) is not None:
            return estimate
        estimates[id(cast("Any", node))] = 1, 1
        parts = [visit(child) for child in _children(node)]
        if isinstance(node, dict):
            fields = cast("dict[str, Any]", node)
            based = node is not root and any(isinstance(fields.get(k), str) for k in _OTHER_BASES)
            if based or any(keyword in fields for keyword in _OTHER_REFERENCES):
                parts.append(_UNKNOWN)
            if isinstance(reference := fields.get("$ref"), str):
                target = _follow(root, reference)
                parts.append(_UNKNOWN if target is None else visit(target))
        total = 1 + sum(visits for visits, _ in parts), sum(returns for _, returns in parts)
        estimates[id(cast("Any", node))] = total
        return total

    visits, returns = visit(root)
    return visits, max(1, returns)


def _follow(root: Any, reference: str) -> Any:
    """Returns the subschema that a pointer into the same schema names, or None."""
    start, *parts = unquote(reference).split("/")
    path = [part.replace("~1", "/").replace("~0", "~") for part in parts]
    return find_part(root, path) if start == "#" else None


def _flatten(value: Any, depth: int) -> Any:
    """Returns a value with null in the place of the objects and lists below a depth."""
    if not isinstance(value, dict | list) or not depth:
        return None if isinstance(value, dict | list) else value
    if isinstance(value, dict):
        return {
            name: _flatten(item, depth - 1) for name, item in cast("dict[str, Any]", value).items()
        }
    return [_flatten(item, depth - 1) for item in cast("list[Any]", value)]
