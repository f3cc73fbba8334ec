"""Checking a tool's arguments before its server sees them, with advice for whoever gave them.

A help, not a barrier: where the schema itself is of no use, the server decides.
Patterns are the server's matter, too: they are regular expressions of another
dialect, and a third party's.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from toolscript.errors import ArgumentsError
from toolscript.text import printable

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

_MAX_ERRORS = 5
_SHOWN = 120
_CACHED = 1024


def check_arguments(name: str, schema: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise `ArgumentsError` for arguments that a tool's input schema does not allow."""
    mistakes = _mistakes(schema, arguments)
    if mistakes:
        raise ArgumentsError(f"{name}: {'; '.join(mistakes)}. {usage(schema)}")


def usage(schema: dict[str, Any]) -> str:
    """What a tool takes, in a sentence: ``It takes path (string, required), head (number)``."""
    known, needed = _parameters(schema)
    if not known:
        return "It takes no arguments" if schema.get("properties") == {} else "See its input schema"
    listed = [f"{n} ({_kind(known[n])}{', required' if n in needed else ''})" for n in known]
    return printable(f"It takes {', '.join(listed)}", 2000)


def signature(schema: dict[str, Any], limit: int = 0) -> str:
    """What a tool takes, as short as it goes: ``(path: string, head?: number)``."""
    known, needed = _parameters(schema)
    first = sorted(known, key=lambda name: name not in needed)
    listed = [f"{name}{'' if name in needed else '?'}: {_kind(known[name])}" for name in first]
    return printable(f"({', '.join(listed)})", limit)


def _parameters(schema: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The parameters' schemas by name, and the names of those that must be given."""
    properties: Any = schema.get("properties")
    required: Any = schema.get("required")
    known = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    return known, cast("list[Any]", required) if isinstance(required, list) else []


def _kind(schema: Any) -> str:
    found = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    if "enum" in found:
        return printable(f"one of {json.dumps(found['enum'])}", 300)
    kind: Any = found.get("type")
    if isinstance(kind, list):
        return " or ".join(str(each) for each in cast("list[Any]", kind))
    items: Any = found.get("items")
    if kind == "array" and isinstance(items, dict):
        return f"array of {_kind(items)}"
    return str(kind) if kind else "any"


def prepare() -> None:
    """Import what checking takes. It is most of 100 ms, which the first call need not wait for."""
    _validator("{}")


def _mistakes(schema: dict[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - only what calls pays for it

    validator = _validator(json.dumps(schema))
    if validator is None:
        return []
    try:
        return _told(validator.iter_errors(arguments))
    except (Unresolvable, RecursionError, TypeError, ValueError, AttributeError):
        return []  # the schema refers to what is not in it, or says what cannot be followed


@lru_cache(_CACHED)
def _validator(schema: str) -> "Validator | None":
    """A compiled schema, or None where it is none; it reads nothing from the network."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 - see _mistakes
    from jsonschema.validators import extend, validator_for  # pyright: ignore[reportUnknownVariableType]  # noqa: PLC0415 - untyped upstream
    from referencing import Registry  # noqa: PLC0415

    decoded = json.loads(schema)
    kind = validator_for(decoded, default=Draft202012Validator)
    try:
        kind.check_schema(decoded)
    except (SchemaError, RecursionError):
        return None
    registry: Registry[Any] = Registry()
    lenient = cast("Callable[..., type[Validator]]", extend)(kind, {"pattern": _left_alone})
    return lenient(decoded, registry=registry)


def _left_alone(*_: Any) -> Iterable["ValidationError"]:
    return ()


def _told(errors: "Iterable[ValidationError]") -> list[str]:
    found: list[str] = []
    for error in errors:
        if len(found) == _MAX_ERRORS:
            found.append("and more")
            break
        found.append(_mistake(error))
    return found


def _mistake(error: "ValidationError") -> str:
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
    place = where.removeprefix(".") or "the arguments"
    if error.validator == "required":
        missing = error.message.removesuffix(" is a required property").strip("'\"")
        return printable(f"{where}.{missing}".removeprefix(".") + " is missing", 300)
    if error.validator in {"anyOf", "oneOf"}:
        return f"{place} is {_value(error.instance)}, which fits none of what is allowed"
    if error.validator == "type":
        wanted: Any = error.validator_value
        kinds = " or ".join(cast("list[str]", wanted)) if isinstance(wanted, list) else wanted
        return f"{place} is {_value(error.instance)}; expected {kinds}"
    return printable(f"{place}: {error.message}", 300)


def _value(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False, default=str), _SHOWN)
