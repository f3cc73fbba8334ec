"""Checks a tool's arguments before its server sees them, and advises the caller.

A help, not a barrier: a value that differs from the schema in its type alone is read as the schema
wants it, as the servers' own libraries do. If the schema itself is of no use, or takes more than
its budget of steps, the server decides.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from toolscript.app.schema_validation import Budget, OverBudgetError, errors
from toolscript.errors import ArgumentsError
from toolscript.text.display import first_lines, printable
from toolscript.text.json_values import as_list, as_object
from toolscript.text.words import compact

if TYPE_CHECKING:
    from jsonschema import ValidationError

QUICK_STEPS = 1_000
"""Steps of validation on the event loop: some 10 ms at most."""
MAX_STEPS = 50_000
"""Steps in a thread, some half a second, after which the server judges the arguments."""
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
ONE_AT_A_TIME = anyio.CapacityLimiter(1)
"""Several threads that compute keep the event loop waiting for several turns."""


def check_arguments(
    name: str, schema: dict[str, Any], arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Returns the arguments of one of our own tools as its schema wants them.

    Raises `ArgumentsError` for arguments that cannot be read so.
    """
    return _check(name, schema, arguments, Budget(MAX_STEPS, partly=True))


async def check_foreign_arguments(
    name: str, schema: dict[str, Any], arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Does the same for a server's schema, off the event loop if it takes long.

    Past the budget nothing is raised, and the server judges the arguments as they are.
    """
    try:
        return _check(name, schema, arguments, Budget(QUICK_STEPS, final=False))
    except OverBudgetError:
        check = partial(_check_at_length, name, schema, arguments)
        return await anyio.to_thread.run_sync(check, limiter=ONE_AT_A_TIME)


def _check_at_length(
    name: str, schema: dict[str, Any], arguments: Mapping[str, Any]
) -> Mapping[str, Any]:
    try:
        return _check(name, schema, arguments, Budget(MAX_STEPS))
    except OverBudgetError:
        return arguments


def _check(
    name: str, schema: dict[str, Any], arguments: Mapping[str, Any], budget: Budget
) -> Mapping[str, Any]:
    found = errors(schema, arguments, budget, _MAX_ERRORS + 1)
    for _ in range(_MAX_PASSES):
        if not found:
            return arguments
        wanted: dict[tuple[str | int, ...], set[str]] = {}
        for path, types in chain.from_iterable(map(_find_expected_types, found)):
            wanted.setdefault(path, set()).update(types)
        read = arguments
        for path, types in wanted.items():
            read = _read(read, path, types)
        if read == arguments:
            break
        arguments = read
        found = errors(schema, arguments, budget, _MAX_ERRORS + 1)
    raise ArgumentsError(f"{name}: {'; '.join(_describe(found))}. {usage(schema)}")


def _find_expected_types(
    error: "ValidationError",
) -> Iterator[tuple[tuple[str | int, ...], set[str]]]:
    """Yields the places that want another type, with the types one of which would fit."""
    if error.validator in {"anyOf", "oneOf"}:
        for branch in error.context or ():
            yield from _find_expected_types(branch)
    elif error.validator == "type":
        wanted: Any = error.validator_value
        types = {wanted} if isinstance(wanted, str) else set(cast("list[str]", wanted))
        yield tuple(error.absolute_path), types


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


def prepare() -> None:
    """Imports the modules of validation: most of 100 ms, for which the first call need not wait."""
    errors({}, {}, Budget(MAX_STEPS), 1)


def _describe(found: "list[ValidationError]") -> list[str]:
    more = ["and more"] if len(found) > _MAX_ERRORS else []
    return [*map(_mistake, found[:_MAX_ERRORS]), *more]


def _mistake(error: "ValidationError") -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
    place = where.removeprefix(".") or "the arguments"
    if error.validator == "required":
        missing = error.message.removesuffix(" is a required property").strip("'\"")
        told = printable(f"{where}.{missing}".removeprefix(".") + " is missing", 300)
        meant = _find_misspelt(missing, error)
        asked = f" ({show_name(meant)} is not known; did you mean {show_name(missing)}?)"
        return told + asked if meant else told
    if error.validator in {"anyOf", "oneOf"}:
        fit = "none" if error.context else "several, but may fit only one,"
        return f"{place} is {_value(error.instance)}, which fits {fit} of the alternatives"
    if error.validator == "type":
        wanted: Any = error.validator_value
        kinds = " or ".join(cast("list[str]", wanted)) if isinstance(wanted, list) else wanted
        return f"{place} is {_value(error.instance)}; expected {kinds}"
    return printable(f"{place}: {error.message}", 300)


def _find_misspelt(missing: str, error: "ValidationError") -> str:
    """Returns the unknown name that was sent in the place of one that is missing, or ""."""
    known = _parameters(as_object(cast("Any", error.schema)))[0]
    sent = islice(as_object(cast("Any", error.instance)), _SHOWN_ITEMS)
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
