"""The types that a JSON Schema is read into: those that TypeScript and Python both can express."""

from collections.abc import Callable
from itertools import filterfalse
from math import nan
from typing import Literal, TypeAlias

import msgspec

MAX_DEPTH = 32
"""Levels of nested types; a deeper one is any value."""
MAX_BRANCHES = 64
"""Members that an intersection of unions may have."""
MAX_INDEX = 1000
"""Size of the types that TypeScript may write once more, for any property of an object."""
_CHARS = 64
"""Characters that count as much as a type."""
_FIELDS = 32
"""Properties that are merged in one step."""
ScalarKind = Literal["string", "number", "integer", "boolean", "null"]


class Unknown(msgspec.Struct, frozen=True):
    """Any value. ``why`` says why a schema could not be read; it becomes a comment."""

    why: str = ""
    is_deep: bool = False
    """Whether the schema says, in some case, which properties or items a value has."""


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
    """The type of all other properties; None if the schema does not mention them."""
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
DEEP, LARGE = Unknown("nested too deeply"), Unknown("the schema is too large")
CIRCULAR = Unknown("it cannot be merged with what refers to it")
_CUT = (DEEP, LARGE, CIRCULAR)
"""Stand for types of which nothing is known, not even their properties."""
NEVER = Never()
STRING, NULL = Scalar("string"), Scalar("null")


def union(members: "list[Type]") -> Type:
    """Returns the type of the values that fit one of these: flat, each member once."""
    flat: dict[Type, None] = {}
    for member in members:
        flat |= dict.fromkeys(member.members if type(member) is Union else (member,))
    unknown = [each for each in flat if type(each) is Unknown]
    if unknown:
        first = min(unknown, key=_rank)
        return first if first in _CUT else Unknown(first.why, any(map(_is_deep, flat)))
    flat.pop(NEVER, None)
    if not flat:
        return NEVER
    return Union(tuple(flat)) if len(flat) > 1 else next(iter(flat))


def may_be_empty(kind: Type) -> bool:
    """Whether the empty object fits the type, so that a call needs no arguments."""
    return type(kind) is Object and not any(field.required for field in kind.fields)


def size(kind: Type) -> int:
    """Returns how many types and properties are written for a type; long texts count as some."""
    match kind:
        case Constant():
            return 1 + len(kind.json) // _CHARS
        case Array():
            return 1 + size(kind.item)
        case Tuple():
            return 1 + sum(map(size, kind.items)) + (size(kind.rest) if kind.rest else 0)
        case Object():
            inside = sum(map(_size_of_field, kind.fields))
            return 1 + inside + (min(inside + size(kind.extra), MAX_INDEX) if kind.extra else 0)
        case Union(members=parts):
            return 1 + sum(map(size, parts))
        case _:
            return 1


def _size_of_field(field: Field) -> int:
    texts = len(field.name) + len(field.doc) + sum(len(value) for _, value in field.tags)
    return 1 + texts // _CHARS + size(field.type)


def _is_deep(kind: Type) -> bool:
    """Whether the type says, or may say, which properties or items its values have."""
    if type(kind) is Union:
        return any(map(_is_deep, kind.members))
    if type(kind) is Unknown:
        return kind.is_deep or kind in _CUT
    return type(kind) not in (Never, Scalar, Constant)


def _rank(kind: Type) -> int:
    """Returns which of two types counts, if one is any value: the lower."""
    if type(kind) is not Unknown:
        return 1
    return 0 if kind in _CUT else 2 if kind.why else 3


class Intersection:
    """Intersects types.

    ``resolve`` returns a type with a reference replaced by its target, or None while that is still
    being read. ``is_spent`` counts some steps, and returns whether there were too many: one for a
    call, and the size of every type that is copied, since copies of copies grow without end.
    """

    def __init__(
        self, resolve: Callable[[Type], Type | None], is_spent: Callable[[int], bool]
    ) -> None:
        self._resolve = resolve
        self._is_spent = is_spent

    def of(self, one: Type, other: Type, depth: int = 0) -> Type:
        """Returns a type of the values that fit both; if that is unclear, a wider one."""
        spent = self._is_spent(1)
        if one is other or type(one) is Unknown or type(other) is Unknown:
            known, unknown = sorted((one, other), key=_rank)
            return self.widen(known, depth) if _is_deep(unknown) and known != unknown else known
        if spent or depth > MAX_DEPTH:
            return next(filterfalse(_is_deep, (one, other)), LARGE if spent else DEEP)
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
        first, second = self._copy(one), self._copy(other)
        return self.of(first, second, depth + 1)

    def _copy(self, kind: Type) -> Type:
        """Returns a type with a reference replaced by its target."""
        if type(kind) is not Reference:
            return kind
        target = self._resolve(kind)
        if target is None:
            return CIRCULAR
        return LARGE if self._is_spent(size(target)) else target

    def _of_unions(self, one: Union, other: Type, depth: int) -> Type:
        count = len(one.members) * (len(other.members) if type(other) is Union else 1)
        constants = all(type(member) is Constant for member in one.members)
        if count > MAX_BRANCHES and not constants:
            return self.widen(other, depth)
        if not constants and self._is_spent((len(one.members) - 1) * size(other)):
            return LARGE
        return union([self.of(member, other, depth + 1) for member in one.members])

    def _of_plain(self, one: Type, other: Type, depth: int) -> Type:
        match one, other:
            case Object(), Object():
                return self._of_objects(one, other, depth)
            case Array(), Array():
                return Array(self.of(one.item, other.item, depth + 1))
            case (Tuple(), Array() | Tuple()):
                return self.widen(one, depth)
            case (Array(), Tuple()):
                return self.widen(other, depth)
            case (Scalar() | Constant(), Scalar() | Constant()):
                return _of_scalars(one, other)
            case _:  # of two kinds, or one of them is never
                return NEVER

    def _of_objects(self, one: Object, other: Object, depth: int) -> Type:
        fields = {field.name: field for field in one.fields}
        for field in other.fields:
            known = fields.get(field.name)
            fields[field.name] = self._of_fields(known, field, depth) if known else field
        self._is_spent(len(fields) // _FIELDS)
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

    def widen(self, kind: Type, depth: int = 0) -> Type:
        """Returns the type with any further properties in its objects, and in those within."""
        if self._is_spent(1) or depth > MAX_DEPTH:
            return LARGE
        wide = kind
        match kind:
            case Unknown() if kind not in _CUT:
                wide = Unknown(kind.why, is_deep=True)
            case Reference():  # further in, it might refer to what it is part of
                wide = UNKNOWN if depth else self.widen(self._copy(kind), 1)
            case Union():
                wide = union([self.widen(each, depth + 1) for each in kind.members])
            case Array():
                wide = Array(self.widen(kind.item, depth + 1))
            case Tuple():
                places = tuple(self.widen(each, depth + 1) for each in kind.items)
                rest = kind.rest and self.widen(kind.rest, depth + 1)
                wide = Tuple(places, kind.required, rest)
            case Object():
                fields = (
                    msgspec.structs.replace(field, type=self.widen(field.type, depth + 1))
                    for field in kind.fields
                )
                wide = Object(tuple(fields), UNKNOWN)
            case _:
                pass
        return wide


def _of_scalars(one: Scalar | Constant, other: Scalar | Constant) -> Type:
    if type(one) is Constant and type(other) is Constant:
        return one if one == other or _number(one) == _number(other) else NEVER
    narrow, wide = (one, other) if type(one) is Constant else (other, one)
    if narrow.kind == wide.kind or (narrow.kind, wide.kind) == ("integer", "number"):
        return narrow
    if (narrow.kind, wide.kind) == ("number", "integer"):
        if type(narrow) is Scalar:
            return wide
        return narrow if _number(narrow).is_integer() else NEVER  # 1.0 is an integer
    return NEVER


def _number(kind: Scalar | Constant) -> float:
    """Returns the number that a constant is, or an object that equals nothing."""
    if type(kind) is Constant and kind.kind in {"integer", "number"}:
        return float(kind.json)
    return nan
