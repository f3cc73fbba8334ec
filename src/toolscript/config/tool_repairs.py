"""Reads the key ``tools`` of a server's entry: repairs, by the server's own names of its tools."""

import re
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import msgspec

from toolscript.config.known_keys import misspelt
from toolscript.text.json_values import as_object
from toolscript.types import TOOL_CLASSES, ArgumentRepair, Repair, ToolClass

_T = TypeVar("_T")

_KEYS = ("name", "title", "description", "arguments", "annotations")
_ARGUMENT_KEYS = ("value", "default", "description")
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


class RepairError(Exception):
    """A repair that cannot be used; the message names the key."""


def is_repair(value: object) -> bool:
    """Whether a value in ``tools`` is a repair; another client's means nothing here."""
    if not isinstance(value, dict):
        return False
    keys = {*cast("dict[str, Any]", value)}
    return not keys or not keys.isdisjoint(_KEYS) or misspelt(keys, _KEYS) is not None


def read_repairs(tools: object) -> dict[str, Repair]:
    """Returns the repairs of an entry's ``tools``, by the server's names of the tools.

    Raises:
        RepairError: A key or a value is wrong.
    """
    repairs = ((name, raw) for name, raw in as_object(tools).items() if is_repair(raw))
    return {name: _read(f"tools.{name}", raw) for name, raw in repairs}


def describe_unread_repairs(tools: object) -> Iterator[str]:
    """Yields a line for each tool of which ``tools`` says something that is no repair."""
    for name in (name for name, raw in as_object(tools).items() if not is_repair(raw)):
        yield f"tools.{name:.60} is not read: it has none of {', '.join(_KEYS)}"


def class_of_hints(repair: Repair) -> ToolClass | None:
    """Returns the class that the hints of a repair stand for; None if it has none."""
    hints = repair.annotations
    if hints.keys().isdisjoint({"readOnlyHint", "destructiveHint"}):
        return None
    if hints.get("readOnlyHint") is True:
        return TOOL_CLASSES[0]
    return TOOL_CLASSES[1 if hints.get("destructiveHint") is False else 2]


def _read(place: str, raw: dict[str, Any]) -> Repair:
    _check_keys(place, raw, _KEYS)
    for name, argument in as_object(raw.get("arguments")).items():
        where = f"{place}.arguments.{name:.60}"
        stated = _convert(where, argument, dict[str, Any])
        _check_keys(where, stated, _ARGUMENT_KEYS)
        if {"value", "default"} <= stated.keys():
            raise RepairError(f"{where} has both value and default; keep the one that is meant")
        _convert(where, stated, ArgumentRepair)
    repair = _convert(place, raw, Repair)
    if repair.name and not _NAME.fullmatch(repair.name):
        raise RepairError(
            f"{place}.name is {repair.name[:60]!r}; expected up to 128 letters, digits, '_', '-', "
            "'.' and '/'"
        )
    return repair


def _convert(place: str, value: object, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).replace("`", "").partition(" - at $")
        raise RepairError(f"{place}{path}: {problem[:1].lower()}{problem[1:]}") from None


def _check_keys(place: str, raw: dict[str, Any], known: tuple[str, ...]) -> None:
    if mistake := misspelt(raw, known):
        raise RepairError(f"in {place} {mistake}")
    for key in raw.keys() - set(known):
        raise RepairError(f"{place} has the key {key[:60]!r}; expected {', '.join(known)}")
