"""The types that a JSON Schema is read into: those that TypeScript and Python both can express."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

MAX_DEPTH = 32
"""Levels of nested types; a deeper one is any value."""
MAX_BRANCHES = 64
"""Members that an intersection of unions may have."""
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


class Intersection:
    """Intersects types.

    ``resolve`` returns a type with a reference replaced by its target, or None while that is still
    being read. ``is_spent`` counts a step, and returns whether there were too many.
    """

    def __init__(
        self, resolve: Callable[[Type], Type | None], is_spent: Callable[[], bool]
    ) -> None:
        self._resolve = resolve
        self._is_spent = is_spent

    def of(self, one: Type, other: Type, depth: int = 0) -> Type:
        """Returns a type of the values that fit both; where that is unclear, a wider one."""
        spent = self._is_spent()
        if type(one) is Unknown and not (type(other) is Unknown and one.why):
            return other
        if type(other) is Unknown or one is other or spent or depth > MAX_DEPTH:
            return one
        if type(one) is Reference or type(other) is Reference:
            return self._of_referred(one, other, depth)
        if type(one) is Union:
            return self._of_unions(one, other, depth)
        if type(other) is Union:
            return self._of_unions(other, one, depth)
        return self._of_plain(one, other, depth)

    def _of_referred(self, one: Type, other: Type, depth: int) -> Type:
        if one == other:
            return one
        first, second = self._resolve(one), self._resolve(other)
        if first is None or second is None:  # still being read
            return one if first is not None else other
        return self.of(first, second, depth + 1)

    def _of_unions(self, one: Union, other: Type, depth: int) -> Type:
        count = len(one.members) * (len(other.members) if type(other) is Union else 1)
        constants = all(type(member) is Constant for member in one.members)
        if count > MAX_BRANCHES and not constants:
            return other if type(other) is not Union else one
        return union([self.of(member, other, depth + 1) for member in one.members])

    def _of_plain(self, one: Type, other: Type, depth: int) -> Type:
        match one, other:
            case Object(), Object():
                return self._of_objects(one, other, depth)
            case Array(), Array():
                return Array(self.of(one.item, other.item, depth + 1))
            case (Tuple(), Array() | Tuple()):
                return one
            case (Array(), Tuple()):
                return other
            case (Scalar() | Constant(), Scalar() | Constant()):
                return _of_scalars(one, other)
            case _:  # of two kinds, or one of them is never
                return NEVER

    def _of_objects(self, one: Object, other: Object, depth: int) -> Type:
        fields = {field.name: field for field in one.fields}
        for field in other.fields:
            known = fields.get(field.name)
            fields[field.name] = self._of_fields(known, field, depth) if known else field
        extra = one.extra or other.extra
        if one.extra and other.extra:
            extra = self.of(one.extra, other.extra, depth + 1)
        return Object(tuple(fields.values()), extra, one.sealed or other.sealed)

    def _of_fields(self, one: Field, other: Field, depth: int) -> Field:
        return Field(
            one.name,
            self.of(one.type, other.type, depth + 1),
            one.required or other.required,
            one.doc or other.doc,
            one.tags or other.tags,
        )


def _of_scalars(one: Scalar | Constant, other: Scalar | Constant) -> Type:
    if type(one) is Constant and type(other) is Constant:
        return one if one == other else NEVER
    narrow, wide = (one, other) if type(one) is Constant else (other, one)
    if narrow.kind == wide.kind or (narrow.kind, wide.kind) == ("integer", "number"):
        return narrow
    if (narrow.kind, wide.kind) == ("number", "integer") and type(narrow) is Scalar:
        return wide
    return NEVER
