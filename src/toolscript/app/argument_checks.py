"""Checks a tool's arguments before its server sees them, and advises the caller.

A help, not a barrier: a value that differs from the schema in its type alone is read as the schema
wants it, as the servers' own libraries do. If the schema itself is of no use, or takes too much
work, the server decides.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate, chain, islice
from typing import Any, cast

from jsonschema_rs import ValidationError, ValidationErrorKind

from toolscript.app.json_schema import find_part, validate
from toolscript.errors import ArgumentsError
from toolscript.text.display import first_lines, printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.words import compact

_MAX_ERRORS = 5
_MAX_KIND, _MAX_VALUE, _FIRST_VALUES, _FIRST_MEMBERS = 66, 24, 3, 4
"""Characters of a type and of a value in a short signature; values of an enumeration, and members
of an object that it names."""
_MAX_NAME, _NEAR = 64, 0.8
_PLAIN_NAME = re.compile(rf"[A-Za-z0-9_.$\[\]-]{{1,{_MAX_NAME}}}")
_ARGUMENTS = {"args", "argument", "kwargs", "params", "parameters", "input", "inputs"}
"""Names under which models send ``arguments``."""
_MAX_NAMED = 10
_MAX_PASSES = 4
"""Rounds of reading: a value that was read may hold others that have to be read, too."""
_MAX_READ_CHARS = 100_000
"""Longer strings are not read as JSON."""
_SHOWN, _SHOWN_ITEMS, _SHOWN_DEPTH = 120, 20, 3


def check_arguments(
    name: str, schema: dict[str, Any], arguments: Mapping[str, Any], *, ours: bool = False
) -> Mapping[str, Any]:
    """Returns the arguments as the schema wants them.

    Args:
        name: The name of the tool, for the message.
        schema: Its input schema.
        arguments: The arguments, decoded from JSON.
        ours: Whether the schema is our own, which is applied to arguments of any size.

    Raises `ArgumentsError` for arguments that cannot be read so.
    """
    mistakes = validate(schema, arguments, _MAX_ERRORS + 1, ours=ours)
    for _ in range(_MAX_PASSES):
        if not mistakes:
            return arguments
        wanted: dict[tuple[str | int, ...], set[str]] = {}
        for path, types in chain.from_iterable(map(_find_expected_types, mistakes)):
            wanted.setdefault(path, set()).update(types)
        read = arguments
        for path, types in wanted.items():
            read = _read(read, path, types)
        if read == arguments:
            break
        arguments = read
        mistakes = validate(schema, arguments, _MAX_ERRORS + 1, ours=ours)
    messages = [_describe(mistake, schema) for mistake in mistakes]
    raise ArgumentsError(
        f"{name}: {'; '.join(first_lines(messages, _MAX_ERRORS, 'and more'))}. {usage(schema)}"
    )


def _find_expected_types(
    mistake: ValidationError,
) -> Iterator[tuple[tuple[str | int, ...], set[str]]]:
    """Yields the places that want another type, with the types one of which would fit."""
    match mistake.kind:
        case ValidationErrorKind.AnyOf() | ValidationErrorKind.OneOfNotValid() as kind:
            for error in chain.from_iterable(kind.context):
                yield from _find_expected_types(error)
        case ValidationErrorKind.Type() as kind:
            yield tuple(mistake.instance_path), set(kind.types)
        case _:
            pass


def _read(value: Any, path: Sequence[str | int], wanted: set[str]) -> Any:
    """Returns a value in which the part at ``path`` is read as one of the wanted types.

    In an object ``None`` is read as a member that was left out. Nothing given is changed.
    """
    if not path:
        return _read_text(value, wanted) if isinstance(value, str) else value
    step, *rest = path
    copy: Any = cast("dict[str, Any]", value).copy() if isinstance(value, dict) else list(value)
    if not rest and wanted and copy[step] is None and isinstance(copy, dict):
        del copy[step]
    else:
        copy[step] = _read(copy[step], rest, wanted)
    return cast("Any", copy)


def _read_text(text: str, wanted: set[str]) -> Any:
    if len(text) > _MAX_READ_CHARS:
        return text
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        if "array" in wanted and text[:1] not in {"", "[", "{"}:  # one, without its brackets
            return [text]
        return {} if not text and "object" in wanted else text
    return value if _types_of(value) & wanted else text


def _types_of(value: Any) -> set[str]:
    """Returns the names that JSON Schema has for the type of a value, except text and null."""
    match value:
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float() if math.isfinite(value):
            return {"number"}
        case dict():
            return {"object"}
        case list():
            return {"array"}
        case _:
            return set()


def check_places(schema: dict[str, Any], sent: Mapping[str, Any]) -> None:
    """Raises `ArgumentsError` if a tool's arguments were sent beside ``arguments``.

    Args:
        schema: The tool's input schema; an empty one is of an unknown tool.
        sent: ``tool``, ``arguments`` and the keys that were sent beside them.
    """
    given, beside = sent.get("arguments", {}), sent.keys() - {"tool", "arguments"}
    if misplaced := sorted(beside & _parameters(schema)[0].keys() - given.keys()):
        names = ", ".join(first_lines([*map(show_name, misplaced)], _MAX_NAMED, "{} more"))
        raise ArgumentsError(f"put these inside arguments, not beside it: {names}")
    if not given and (other := sorted(beside & _ARGUMENTS)):
        raise ArgumentsError(f"{other[0]} is not known; did you mean arguments?")


def usage(schema: dict[str, Any]) -> str:
    """Returns a sentence: ``It takes path (string, required), head (number)``."""
    known, needed = _parameters(schema)
    if not known:
        return "It takes no arguments" if schema.get("properties") == {} else "See its input schema"
    listed = [
        f"{show_name(name)} ({_kind(kind)}{', required' if name in needed else ''})"
        for name, kind in known.items()
    ]
    return printable(f"It takes {', '.join(listed)}", 2000)


def signature(schema: dict[str, Any], limit: int = 0) -> str:
    """Returns a tool's parameters, in short: ``(path: string, head?: number)``."""
    known, needed = _parameters(schema)
    first = sorted(known, key=lambda name: name not in needed)
    listed = [
        f"{show_name(name)}{'' if name in needed else '?'}: {_kind(known[name])}" for name in first
    ]
    return printable(f"({', '.join(listed)})", limit)


def short_signature(schema: dict[str, Any], limit: int) -> str:
    """Returns the needed parameters: ``(path, head: integer, edits: [{oldText, newText}], …)``.

    One without a type is a text; ``…`` stands for the optional ones. A parameter for which there is
    no room any more is counted: ``+2 required``.
    """
    known, needed = _parameters(schema)
    required = [_short_parameter(name, known[name]) for name in known if name in needed]
    lengths = accumulate(len(each) + 2 for each in required)
    shown = required[: max(1, sum(length <= limit for length in lengths))]
    left = len(required) - len(shown)
    more = [f"+{left} required"] * bool(left) + ["…"] * (len(known) > len(required))
    return f"({', '.join([printable(', '.join(shown), limit)] * bool(shown) + more)})"


def _short_parameter(name: str, schema: Any) -> str:
    kind = _short_kind(schema)
    return show_name(name) if kind == "string" else f"{show_name(name)}: {kind}"


def show_name(name: str) -> str:
    """Returns a parameter's name: quoted, and cut, if it could pass for more than a name."""
    return name if _PLAIN_NAME.fullmatch(name) else _quote(name, _MAX_NAME)


def _quote(text: str, limit: int) -> str:
    """Returns a text as JSON, cut within its quotes, so that it can pass for nothing else."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return printable(json.dumps(cut, ensure_ascii=False))


def _parameters(schema: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Returns the parameters' schemas by name, and the names of those that must be given."""
    return as_object(schema.get("properties")), as_list(schema.get("required"))


def _kind(schema: Any) -> str:
    found = as_object(schema)
    if "enum" in found:
        return printable(f"one of {json.dumps(found['enum'])}", 300)
    kind: Any = found.get("type")
    if isinstance(kind, list):
        return " or ".join(show_name(str(each)) for each in cast("list[Any]", kind))
    branches: Any = found.get("anyOf") or found.get("oneOf")
    if not kind and isinstance(branches, list):
        kinds = dict.fromkeys(map(_kind, cast("list[Any]", branches)))
        return "any" if "any" in kinds else " or ".join(kinds)
    items: Any = found.get("items")
    if kind == "array" and isinstance(items, dict):
        return f"array of {_kind(items)}"
    return show_name(str(kind)) if kind else "any"


def _short_kind(schema: Any) -> str:
    """Returns a type in short: ``"a"|"b"|…``, ``[integer]``, ``{path, head?, …}``."""
    found = as_object(schema)
    if values := as_list(found.get("enum")):
        first = map(_short_value, values[:_FIRST_VALUES])
        return "|".join([*first, *(["…"] if len(values) > _FIRST_VALUES else [])])
    if found.get("type") == "array" and found.get("items"):
        return f"[{_short_kind(found['items'])}]"
    members, needed = _parameters(found)
    if not members:
        return printable(_kind(schema), _MAX_KIND)
    names = [f"{show_name(name)}{'' if name in needed else '?'}" for name in members]
    return f"{{{', '.join(first_lines(names, _FIRST_MEMBERS, '…'))}}}"


def _short_value(value: Any) -> str:
    if isinstance(value, str):
        return _quote(value, _MAX_VALUE)
    text = json.dumps(value)
    return text if len(text) <= _MAX_VALUE else "…"


def _describe(mistake: ValidationError, schema: dict[str, Any]) -> str:
    path = mistake.instance_path
    match mistake.kind:
        case ValidationErrorKind.Required() as kind:
            told = printable(f"{_join(path, kind.property)} is missing", 300)
            parent = find_part(schema, mistake.schema_path[:-1])
            meant = _find_misspelt(kind.property, parent, mistake.instance)
            asked = f" ({show_name(meant)} is not known; did you mean {show_name(kind.property)}?)"
            return told + asked if meant else told
        case ValidationErrorKind.AdditionalProperties() as kind:
            names = first_lines([*map(show_name, kind.unexpected)], _MAX_NAMED, "{} more")
            return printable(f"{_join(path, ', '.join(names))} is not known", 300)
        case ValidationErrorKind.Type() as kind:
            problem = f"; expected {' or '.join(sorted(kind.types, key='null'.__eq__))}"
        case ValidationErrorKind.AnyOf() | ValidationErrorKind.OneOfNotValid():
            problem = ", which fits none of the alternatives"
        case ValidationErrorKind.OneOfMultipleValid():
            problem = ", which fits several of the alternatives, but may fit only one"
        case _:
            problem = f"; {printable(mistake.message, 300)}"
    return f"{_join(path) or 'the arguments'} is {_value(mistake.instance)}{problem}"


def _join(path: Iterable[str | int], *names: str) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*path, *names))
    return "".join(parts).removeprefix(".")


def _find_misspelt(missing: str, schema: Any, given: Any) -> str:
    """Returns the unknown name that was sent in the place of one that is missing, or ""."""
    known = _parameters(as_object(schema))[0]
    sent = islice(as_object(given), _SHOWN_ITEMS)
    unknown = {compact(name[:_MAX_NAME]): name for name in sent if name not in known}
    near = get_close_matches(compact(missing[:_MAX_NAME]), unknown, 1, _NEAR)
    return unknown[near[0]] if near else ""


def _value(value: Any) -> str:
    text = json.dumps(_prune(value, _SHOWN_DEPTH), ensure_ascii=False, default=str)
    return printable(text, _SHOWN)


def _prune(value: Any, depth: int) -> Any:
    """Returns as much of a value as a message shows."""
    if isinstance(value, str):
        return value[:_SHOWN]
    if isinstance(value, list | dict) and not depth:
        return "…"
    if isinstance(value, list):
        items = cast("list[Any]", value)[:_SHOWN_ITEMS]
        return [_prune(item, depth - 1) for item in items]
    if isinstance(value, dict):
        pairs = list(islice(cast("dict[str, Any]", value).items(), _SHOWN_ITEMS))
        return {key[:_SHOWN]: _prune(item, depth - 1) for key, item in pairs}
    return value
