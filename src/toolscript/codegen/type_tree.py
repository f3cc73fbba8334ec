"""The type tree: what a JSON Schema says, in the few shapes that both languages can spell."""

from typing import Literal, TypeAlias

import msgspec

ScalarKind = Literal["string", "number", "integer", "boolean", "null"]


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """Any value. ``why`` is set where a schema could not be read: it becomes a comment."""

    why: str = ""


class Never(msgspec.Struct, frozen=True, gc=False):
    """No value at all."""


class Scalar(msgspec.Struct, frozen=True, gc=False):
    """Every value of one kind."""

    kind: ScalarKind


class Constant(msgspec.Struct, frozen=True, gc=False):
    """One value: ``json`` is its JSON text, since ``1`` and ``true`` are equal in Python."""

    kind: ScalarKind
    json: str


class Array(msgspec.Struct, frozen=True):
    """Any number of items."""

    item: "Type"


class Tuple(msgspec.Struct, frozen=True):
    """An item for each place: ``required`` of them must be there, ``rest`` may follow."""

    items: "tuple[Type, ...]"
    required: int
    rest: "Type | None" = None


class Field(msgspec.Struct, frozen=True):
    """A property. ``tags`` are what else its schema says, such as ``("default", "5")``."""

    name: str
    type: "Type"
    required: bool
    doc: str = ""
    tags: tuple[tuple[str, str], ...] = ()


class Object(msgspec.Struct, frozen=True):
    """An object with these properties.

    ``extra`` is the type of all others, None where the schema says nothing of
    them; ``sealed`` where it forbids them.
    """

    fields: tuple[Field, ...] = ()
    extra: "Type | None" = None
    sealed: bool = False


class Union(msgspec.Struct, frozen=True):
    """A value of one of the members, of which there are two at least."""

    members: "tuple[Type, ...]"


class Reference(msgspec.Struct, frozen=True, gc=False):
    """A type of the same schema that has a name; the empty name is the schema's own."""

    name: str


Type: TypeAlias = Unknown | Never | Scalar | Constant | Array | Tuple | Object | Union | Reference


class Shape(msgspec.Struct, frozen=True):
    """A schema, read: its type, and the types it names, in the order of their first use."""

    root: Type
    definitions: dict[str, Type] = {}


UNKNOWN = Unknown()
NEVER = Never()
STRING, NULL = Scalar("string"), Scalar("null")


def union(members: "list[Type]") -> Type:
    """The type of a value of any of these: flat, each once, nothing that adds nothing."""
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
