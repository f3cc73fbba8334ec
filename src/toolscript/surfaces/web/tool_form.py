"""Builds a form from a tool's input schema, and the arguments from what is submitted."""

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from toolscript.codegen import type_tree as tree
from toolscript.codegen.schema import read
from toolscript.errors import ArgumentsError

Kind: TypeAlias = Literal["text", "number", "integer", "choice", "json"]
PREFIX = "arg."
"""Before an argument's name in the form."""
WHOLE = "json"
"""The field with all arguments as one JSON object, which counts instead of the others."""
MAX_FIELDS = 64
MAX_CHOICES = 100


class FormField(Struct, frozen=True):
    """A field of the form."""

    name: str
    kind: Kind
    required: bool
    about: str
    choices: tuple[str, ...] = ()
    """Each as JSON."""
    default: str = ""
    """What the server takes where nothing is given, as JSON."""


def fields_of(schema: dict[str, Any]) -> tuple[FormField, ...]:
    """Returns the fields of a schema's properties, those that are required first."""
    shape = read(schema)
    if not isinstance(shape.root, tree.Object):
        return ()
    made = [_field(each, shape) for each in shape.root.fields[:MAX_FIELDS]]
    return tuple(sorted(made, key=lambda each: not each.required))


def _field(field: tree.Field, shape: tree.Shape) -> FormField:
    members = [m for m in _members(field.type, shape) if m != tree.Scalar("null")]
    kind: Kind = "json"
    choices: tuple[str, ...] = ()
    if members == [tree.Scalar("boolean")]:
        kind, choices = "choice", ("true", "false")
    elif members and len(members) <= MAX_CHOICES and all(map(_is_constant, members)):
        kind = "choice"
        choices = tuple(each.json for each in members if isinstance(each, tree.Constant))
    elif members == [tree.Scalar("number")]:
        kind = "number"
    elif members == [tree.Scalar("integer")]:
        kind = "integer"
    elif members == [tree.Scalar("string")]:
        kind = "text"
    default = dict(field.tags).get("default", "")
    return FormField(field.name, kind, field.required, field.doc, choices, default)


def _members(kind: tree.Type, shape: tree.Shape) -> tuple[tree.Type, ...]:
    if isinstance(kind, tree.Reference):
        kind = shape.definitions.get(kind.name, kind)
    return kind.members if isinstance(kind, tree.Union) else (kind,)


def _is_constant(kind: tree.Type) -> bool:
    return isinstance(kind, tree.Constant)


def arguments_of(fields: tuple[FormField, ...], form: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns the arguments that a form gives; a field that is blank gives none.

    Raises `ArgumentsError` for a value that is not of its field's kind.
    """
    whole = form.get(WHOLE, [""])[0].strip()
    if whole:
        value = _json(whole, "the arguments")
        if not isinstance(value, dict):
            raise ArgumentsError("the arguments are no JSON object")
        return cast("dict[str, Any]", value)
    given = ((each, form.get(PREFIX + each.name, [""])[0]) for each in fields)
    return {each.name: _value(each, text) for each, text in given if text.strip()}


def _value(field: FormField, text: str) -> Any:
    if field.kind == "text":
        return text.replace("\r\n", "\n")
    return _json(text, field.name)


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ArgumentsError(f"{what[:60]}: {text[:60]!r} is not JSON: {error}") from None
