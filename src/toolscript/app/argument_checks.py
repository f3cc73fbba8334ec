"""Checks a tool's arguments before its server sees them, and advises the caller.

A help, not a barrier: where the schema itself is of no use, or takes more than its
budget of steps, the server decides.
"""

import json
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from toolscript.app.schema_validation import Budget, OverBudgetError, errors
from toolscript.errors import ArgumentsError
from toolscript.text.display import printable

if TYPE_CHECKING:
    from jsonschema import ValidationError

QUICK_STEPS = 1_000
"""Steps of validation on the event loop: some 10 ms at most."""
MAX_STEPS = 50_000
"""Steps in a thread, some half a second, after which the server judges the arguments."""
_MAX_ERRORS = 5
_SHOWN, _SHOWN_ITEMS, _SHOWN_DEPTH = 120, 20, 3
ONE_AT_A_TIME = anyio.CapacityLimiter(1)
"""Several threads that compute keep the event loop waiting for several turns."""


def check_arguments(name: str, schema: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise `ArgumentsError` for arguments that the schema of a built-in tool does not allow."""
    _check(name, schema, arguments, Budget(MAX_STEPS, partly=True))


async def check_foreign_arguments(
    name: str, schema: dict[str, Any], arguments: Mapping[str, Any]
) -> None:
    """Do the same for a server's schema, within the budget and off the event loop if it takes long.

    Past the budget nothing is raised, and the server judges the arguments.
    """
    try:
        _check(name, schema, arguments, Budget(QUICK_STEPS, final=False))
    except OverBudgetError:
        check = partial(_checked_at_length, name, schema, arguments)
        await anyio.to_thread.run_sync(check, limiter=ONE_AT_A_TIME)


def _checked_at_length(name: str, schema: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    try:
        _check(name, schema, arguments, Budget(MAX_STEPS))
    except OverBudgetError:
        return


def _check(name: str, schema: dict[str, Any], arguments: Mapping[str, Any], budget: Budget) -> None:
    found = errors(schema, arguments, budget, _MAX_ERRORS + 1)
    if found:
        raise ArgumentsError(f"{name}: {'; '.join(_told(found))}. {usage(schema)}")


def usage(schema: dict[str, Any]) -> str:
    """Says what a tool takes: ``It takes path (string, required), head (number)``."""
    known, needed = _parameters(schema)
    if not known:
        return "It takes no arguments" if schema.get("properties") == {} else "See its input schema"
    listed = [f"{n} ({_kind(known[n])}{', required' if n in needed else ''})" for n in known]
    return printable(f"It takes {', '.join(listed)}", 2000)


def signature(schema: dict[str, Any], limit: int = 0) -> str:
    """Returns what a tool takes, in short: ``(path: string, head?: number)``."""
    known, needed = _parameters(schema)
    first = sorted(known, key=lambda name: name not in needed)
    listed = [f"{name}{'' if name in needed else '?'}: {_kind(known[name])}" for name in first]
    return printable(f"({', '.join(listed)})", limit)


def _parameters(schema: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Returns the parameters' schemas by name, and the names of those that must be given."""
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
    """Import what validation needs: most of 100 ms, for which the first call need not wait."""
    errors({}, {}, Budget(MAX_STEPS), 1)


def _told(found: "list[ValidationError]") -> list[str]:
    more = ["and more"] if len(found) > _MAX_ERRORS else []
    return [*map(_mistake, found[:_MAX_ERRORS]), *more]


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
    text = json.dumps(_pruned(value, _SHOWN_DEPTH), ensure_ascii=False, default=str)
    return printable(text, _SHOWN)


def _pruned(value: Any, depth: int) -> Any:
    """Returns as much of a value as a message shows."""
    if isinstance(value, str):
        return value[:_SHOWN]
    if isinstance(value, list | dict) and not depth:
        return "…"
    if isinstance(value, list):
        items = cast("list[Any]", value)[:_SHOWN_ITEMS]
        return [_pruned(item, depth - 1) for item in items]
    if isinstance(value, dict):
        pairs = list(islice(cast("dict[str, Any]", value).items(), _SHOWN_ITEMS))
        return {key[:_SHOWN]: _pruned(item, depth - 1) for key, item in pairs}
    return value
