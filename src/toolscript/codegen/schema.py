"""Reads a JSON Schema, draft-07 to 2020-12, into a type tree.

Every schema gives a type, valid or not, and every value that the schema allows fits that type.
Keywords that a type cannot express (``not``, bounds, patterns, ``contains``) are left out; a schema
with conditions allows any further property. Two things are narrower than the specification, as
their authors mean them: a schema with ``properties`` and no ``type`` is an object, and properties
that no schema mentions are not offered.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import unquote

from toolscript.codegen import type_tree as tree
from toolscript.codegen.identifiers import Numbering, pascal
from toolscript.codegen.references import NOWHERE, References
from toolscript.text.json_values import as_list, as_object

MAX_NODES = 20_000
"""Steps that reading one schema may take, and types that are copied; the rest is any value."""

_Schema = dict[str, Any]
_SCALARS: dict[str, tree.Scalar] = {
    "string": tree.STRING,
    "number": tree.Scalar("number"),
    "integer": tree.Scalar("integer"),
    "boolean": tree.Scalar("boolean"),
    "null": tree.NULL,
}
_KINDS: dict[type, tree.ScalarKind] = {
    type(None): "null",
    bool: "boolean",
    str: "string",
    int: "integer",
}
_OTHER_NAMES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
    "tuple": "array",
    "none": "null",
    **{name: name for name in ("object", "array", "string", "number", "integer", "boolean")},
}
"""Names of types that no draft has, but servers use."""
_OBJECT_KEYS = ("properties", "required", "additionalProperties", "patternProperties")
_ARRAY_KEYS = ("items", "prefixItems")
_PLAIN = frozenset(("type", "title", "description", "format"))
_REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
_CONDITIONAL = ("then", "else", "dependentSchemas", "dependencies", "dependentRequired")
_COMBINING = frozenset(
    (*_REFERRING, "allOf", "anyOf", "oneOf", "enum", "const", "nullable", *_CONDITIONAL)
)
_TAGS = (
    *("default", "format", "deprecated", "pattern", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
)
_MAX_TAG, _MAX_NAME = 200, 80
_STRUCTURE = re.compile(r"\d+|\$?defs|definitions|properties|items|prefixItems|(any|all|one)Of")
_DIALECT = re.compile(r"draft-0[3-7]")


def read(schema: Any) -> tree.Shape:
    """Returns the type of the values that a schema allows; accepts any JSON value."""
    reader = _Reader(schema)
    return reader.finished(reader.read(schema))


class _Reader:
    """Reads one schema and resolves its references."""

    def __init__(self, document: Any) -> None:
        self._references = References(document)
        dialect = as_object(document).get("$schema")
        self._alone = isinstance(dialect, str) and bool(_DIALECT.search(dialect))
        """Whether a ``$ref`` hides the keys beside it, as before 2019."""
        self._steps_left = MAX_NODES
        self._names: dict[str, str] = {}
        """Reference → name of the type it means."""
        self._named = {id(document): ""}
        """Identity of a schema → name of its type."""
        self._targets: dict[str, Any] = {"": document}
        """Name → schema."""
        self._waiting: list[str] = []
        """Names in the order of their first use."""
        self._numbering = Numbering(self._targets)
        self._types: dict[str, tree.Type | None] = {"": None}
        """Name → type; None while it is being read."""
        self._levels = 0
        """Schemas that are being read, one for the sake of the other."""
        merging = tree.Intersection(self._resolve, self._is_spent)
        self._both, self._widen = merging.of, merging.widen

    def finished(self, root: tree.Type) -> tree.Shape:
        """Returns the root and the named types; a type that only refers to itself is any value."""
        self._types[""] = root
        for name in self._waiting:  # the loop appends to this list
            if name not in self._types:
                self._define(name)
        types = {name: _some(kind or tree.UNKNOWN) for name, kind in self._types.items()}
        for name in _circular(types):
            types[name] = tree.Unknown("refers to itself without end")
        return tree.Shape(types.pop(""), {name: types[name] for name in self._targets if name})

    def read(self, schema: Any, depth: int = 0) -> tree.Type:
        """Returns the type of one schema."""
        self._steps_left -= 1
        if type(schema) is bool:
            return tree.UNKNOWN if schema else tree.NEVER
        if type(schema) is not dict:
            return tree.Unknown("the schema is neither an object nor true or false")
        if depth > tree.MAX_DEPTH:
            return tree.DEEP
        if self._steps_left < 0:
            return tree.LARGE
        schema = cast("_Schema", schema)
        self._levels += 1
        read = self._by_type if _COMBINING.isdisjoint(schema) else self._combine
        kind = read(schema, depth)
        self._levels -= 1
        return kind

    # Several statements about one value

    def _combine(self, schema: _Schema, depth: int) -> tree.Type:
        reference = self._follow_reference(schema)
        if reference is not None and self._alone:
            return reference
        merged = self._own(schema, depth)
        merged = self._both(merged, reference) if reference else merged
        for each in as_list(schema.get("allOf")):
            merged = self._both(merged, self.read(each, depth + 1))
        for key in ("anyOf", "oneOf"):
            branches = as_list(schema.get(key))
            if branches:
                members = tree.union([self.read(each, depth + 1) for each in branches])
                merged = self._both(merged, members)
        if not schema.keys().isdisjoint(_CONDITIONAL):
            merged = self._widen(merged)
        return tree.union([merged, tree.NULL]) if schema.get("nullable") is True else merged

    def _own(self, schema: _Schema, depth: int) -> tree.Type:
        """Returns the type by ``const``, ``enum`` and ``type``."""
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        own = self._by_type(schema, depth)
        if not isinstance(values, list) or not values:
            return own
        constants = tree.union([_constant(value) for value in cast("list[Any]", values)])
        fitting = self._both(constants, own)
        # Where type and enum contradict each other, the constants count.
        return constants if type(fitting) is tree.Never else fitting

    # By type

    def _by_type(self, schema: _Schema, depth: int) -> tree.Type:
        kind = schema.get("type")
        if type(kind) is str:
            return self._of_type(_standard(kind), schema, depth)
        if isinstance(kind, list) and kind:
            kinds = cast("list[Any]", kind)
            self._steps_left -= len(kinds)
            standard = dict.fromkeys(_standard(each) for each in kinds)
            return tree.union([self._of_type(each, schema, depth) for each in standard])
        if kind is not None:
            return tree.Unknown("its type is not a name")
        if any(key in schema for key in _OBJECT_KEYS):
            return self._object(schema, depth)
        is_array = any(key in schema for key in _ARRAY_KEYS)
        return self._array(schema, depth) if is_array else tree.UNKNOWN

    def _of_type(self, kind: str, schema: _Schema, depth: int) -> tree.Type:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        unheard = tree.Unknown("its type is none that JSON Schema has")
        return _SCALARS.get(kind, unheard)

    def _object(self, schema: _Schema, depth: int) -> tree.Type:
        properties = as_object(schema.get("properties"))
        required = {name for name in as_list(schema.get("required")) if type(name) is str}
        fields = [
            self._field(name, value, name in required, depth) for name, value in properties.items()
        ]
        others = sorted(required - properties.keys())
        fields += [tree.Field(name, tree.UNKNOWN, required=True) for name in others]
        return tree.Object(tuple(fields), *self._extra(schema, depth))

    def _field(self, name: str, schema: Any, required: bool, depth: int) -> tree.Field:  # noqa: FBT001 - as in Field
        kind = self.read(schema, depth + 1)
        if type(schema) is not dict:
            return tree.Field(name, kind, required)
        described = cast("_Schema", schema)
        doc = described.get("description")
        return tree.Field(name, kind, required, doc if type(doc) is str else "", _tags(described))

    def _extra(self, schema: _Schema, depth: int) -> tuple[tree.Type | None, bool]:
        """Returns the type of further properties, and whether they are forbidden."""
        more = schema.get("additionalProperties")
        patterns = as_object(schema.get("patternProperties"))
        if more is None and "unevaluatedProperties" in schema:
            more = schema["unevaluatedProperties"] is not False  # else it depends on all the rest
        if not patterns and (more is None or more is False):
            return None, more is False
        kinds = [self.read(each, depth + 1) for each in patterns.values()]
        kinds.append(tree.UNKNOWN if more is None else self.read(more, depth + 1))
        return tree.union(kinds), False

    def _array(self, schema: _Schema, depth: int) -> tree.Type:
        items = schema.get("items")
        prefix, rest = schema.get("prefixItems"), items
        if isinstance(items, list):
            prefix, rest = cast("list[Any]", items), schema.get("additionalItems")
        following = tree.UNKNOWN if rest is None else self.read(rest, depth + 1)
        if not isinstance(prefix, list) or not prefix:
            return tree.Tuple((), 0) if type(following) is tree.Never else tree.Array(following)
        places = [self.read(each, depth + 1) for each in cast("list[Any]", prefix)]
        least, most = schema.get("minItems"), schema.get("maxItems")
        required = least if type(least) is int else 0
        is_closed = type(following) is tree.Never or (type(most) is int and most <= len(places))
        required = min(max(required, 0), len(places))
        return tree.Tuple(tuple(places), required, None if is_closed else following)

    # References

    def _follow_reference(self, schema: _Schema) -> tree.Type | None:
        for key in _REFERRING:
            if key in schema:
                return self._reference(schema[key])
        return None

    def _reference(self, where: Any) -> tree.Type:
        if type(where) is not str:
            return tree.Unknown("its reference is not a text")
        if where not in self._names:
            target = self._references.find(where)
            if target is NOWHERE:
                return tree.Unknown("it refers to what is not in the schema")
            key = id(target)
            if key not in self._named:
                if type(target) is dict and target.keys() <= _PLAIN:
                    return self.read(target)
                self._named[key] = name = self._name(where)
                self._targets[name] = target
                self._waiting.append(name)
            self._names[where] = self._named[key]
        return tree.Reference(self._names[where])

    def _define(self, name: str) -> None:
        self._types[name] = None
        self._types[name] = self.read(self._targets[name])

    def _resolve(self, kind: tree.Type) -> tree.Type | None:
        if type(kind) is not tree.Reference:
            return kind
        if kind.name not in self._types and self._levels <= tree.MAX_DEPTH:
            self._define(kind.name)
        return self._types.get(kind.name)

    def _is_spent(self, steps: int) -> bool:
        self._steps_left -= steps
        return self._steps_left < 0

    def _name(self, where: str) -> str:
        parts = [
            part for part in re.split("[/#]", unquote(where)) if not _STRUCTURE.fullmatch(part)
        ]
        return self._numbering.new(pascal(parts[-1][:_MAX_NAME] if parts else ""))


def _standard(kind: Any) -> str:
    """Returns the name that JSON Schema has for a type, or "" if it has none."""
    if type(kind) is not str:
        return ""
    if kind in _SCALARS:
        return kind
    word = re.match(r"\w*", kind.strip())
    return _OTHER_NAMES.get(word[0].casefold() if word else "", "")


def _tags(schema: _Schema) -> tuple[tuple[str, str], ...]:
    tags = ((tag, schema[tag]) for tag in _TAGS if tag in schema)
    return tuple(
        (tag, value[:_MAX_TAG] if type(value) is str else json.dumps(value, default=str)[:_MAX_TAG])
        for tag, value in tags
        if value is not None
    )


def _constant(value: object, depth: int = 0) -> tree.Type:
    if depth > tree.MAX_DEPTH:
        return tree.DEEP
    if isinstance(value, list):
        items = [_constant(each, depth + 1) for each in cast("list[Any]", value)]
        return tree.Tuple(tuple(items), len(items))
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        fields = [
            tree.Field(name, _constant(each, depth + 1), required=True) for name, each in pairs
        ]
        return tree.Object(tuple(fields), sealed=True)
    return tree.Constant(_KINDS.get(type(value), "number"), json.dumps(value, default=str))


def _some(kind: tree.Type) -> tree.Type:
    """Returns any value for never: a function whose result is never would not return."""
    return tree.Unknown("no value fits the schema") if type(kind) is tree.Never else kind


def _circular(types: Mapping[str, tree.Type]) -> set[str]:
    """Returns the types that are defined as themselves, with no object, array or tuple between.

    With these as any value, none is left.
    """
    found, done = set[str](), set[str]()
    for first in types:
        path = {} if first in done else {first: _direct(types[first])}
        while path:
            name, ahead = path.popitem()
            following = next(ahead, None)
            if following is None:
                done.add(name)
                continue
            path[name] = ahead
            if following in path:
                found.add(following)
            elif following in types and following not in done:
                path[following] = _direct(types[following])
    return found


def _direct(kind: tree.Type) -> Iterator[str]:
    """Returns the names that a type is, or may be."""
    members = kind.members if type(kind) is tree.Union else (kind,)
    return (each.name for each in members if type(each) is tree.Reference)
