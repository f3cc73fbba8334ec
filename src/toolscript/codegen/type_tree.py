"""The types that a JSON Schema is read into: those that TypeScript and Python both can express."""

from typing import Literal, TypeAlias

import msgspec

ScalarKind = Literal["string", "number", "integer", "boolean", "null"]


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """Any value. ``why`` says why a schema could not be read; it becomes a comment."""

    why: str = ""


class Never(msgspec.Struct, frozen=True, gc=False):
    """No value at all."""


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """Every value of one kind."""

    kind: ScalarKind


class Constant(msgspec.Struct, frozen=True, gc=False):
    """One value, as JSON text, because ``1`` and ``true`` are equal in Python."""

    kind: ScalarKind
    json: str


class Array(msgspec.Struct, frozen=True):
    """Any number of items."""

    item: "Type"


class Tuple(msgspec.Struct, frozen=True):
    """An array with a type for each place; ``required`` places must exist, ``rest`` may follow."""

    items: "tuple[Type, ...]"
    required: int
    rest: "Type | None" = None


class Field(msgspec.Struct, frozen=True):
    """A property. ``tags`` are further keys of its schema, such as ``("default", "5")``."""

    name: str
    type: "Type"
    required: bool
    doc: str = ""
    tags: tuple[tuple[str, str], ...] = ()


class Object(msgspec.Struct, frozen=True):
    """An object with these properties."""

    fields: tuple[Field, ...] = ()
    extra: "Type | None" = None
    """The type of all other properties; None where the schema does not mention them."""
    sealed: bool = False
    """Whether other properties are forbidden."""


class Union(msgspec.Struct, frozen=True):
    """A value of one of the members, of which there are at least two."""

    members: "tuple[Type, ...]"


class Reference(msgspec.Struct, frozen=True, gc=False):
    """A named type of the same schema; the empty name is the schema itself."""

    name: str


Type: TypeAlias = Unknown | Never | Scalar | Constant | Array | Tuple | Object | Union | Reference


class Shape(msgspec.Struct, frozen=True):
    """The type of a schema, and the types that it names, in the order of their first use."""

    root: Type
    definitions: dict[str, Type] = {}


UNKNOWN = Unknown()
NEVER = Never()
STRING, NULL = Scalar("string"), Scalar("null")


def union(members: "list[Type]") -> Type:
    """Returns the type of the values that fit one of these: flat, each member once."""
    flat: dict[Type, None] = {}
    for member in members:
        for each in member.members if type(member) is Union else (member,):
            if type(each) is Unknown:
                return each
            flat[each] = None
    flat.pop(NEVER, None)
    if not flat:
        return NEVER
    return Union(tuple(flat)) if len(flat) > 1 else next(iter(flat))


def may_be_empty(kind: Type) -> bool:
    """Whether the empty object fits the type, so that a call needs no arguments."""
    return type(kind) is Object and not any(field.required for field in kind.fields)
