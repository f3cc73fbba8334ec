"""JSON Schemas and values of them, for property tests.

The values are valid under their schema by an independent judge, the package
``jsonschema``, and say nothing of properties that the schema does not mention.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

import jsonschema
from hypothesis import strategies as st

JSON = dict[str, Any]
KEYS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "id",
        "name",
        "class",
        "list",
        "str",
        "type",
        "from-date",
        "x.y",
        "1",
        "ünï",
        "constructor",
        "__proto__x",
        "😀",
    ]
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**6), 10**6), TEXTS, st.sampled_from([0.5, -1e30])
)
DOCS = st.sampled_from(
    [
        "plain",
        "*/ alert(1) /*",
        "``` `${x}`",
        "</script>",
        "a\u2028b",
        '"""',
        "@ts-expect-error",
        "\\",
    ]
)
REFERENCES = ["#/$defs/one", "#/$defs/two", "#"]


@dataclass(frozen=True, repr=False)
class Case:
    """A schema, and some values that it allows."""

    schema: Any
    values: tuple[Any, ...]

    def __repr__(self) -> str:
        """Short: there are many, and the message says which one it was."""
        return "Case(…)"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A schema of an object, with its definitions, and up to three values."""
    root = draw(objects(2))
    root["$defs"] = {"one": draw(schemas(1)), "two": draw(schemas(1))}
    judge = jsonschema.Draft202012Validator(root)
    found: list[Any] = []
    for _ in range(4):
        value = _value(draw, root, root, 0)
        if value is not _NONE and _is_valid(judge, value) and len(found) < 3:
            found.append(value)
    return Case(root, tuple(found))


def schemas(depth: int) -> st.SearchStrategy[Any]:
    """Schemas in every form that the type tree distinguishes."""
    simple = st.one_of(
        st.sampled_from(["string", "number", "integer", "boolean", "null"]).map(
            lambda kind: {"type": kind}
        ),
        st.lists(SCALARS, min_size=1, max_size=3).map(lambda values: {"enum": values}),
        SCALARS.map(lambda value: {"const": value}),
        st.sampled_from(
            [True, {}, {"type": ["string", "null"]}, {"type": "string", "format": "uri"}]
        ),
        st.sampled_from(REFERENCES).map(lambda where: {"$ref": where}),
    )
    if not depth:
        return _described(simple)
    below = schemas(depth - 1)
    compound = st.one_of(
        objects(depth - 1),
        st.fixed_dictionaries({"type": st.just("array"), "items": below}),
        _tuples(below),
        st.sampled_from(["anyOf", "oneOf", "allOf"]).flatmap(
            lambda key: st.lists(below, min_size=1, max_size=3).map(lambda each: {key: each})
        ),
        st.tuples(objects(depth - 1), objects(depth - 1)).map(
            lambda two: {**two[0], "allOf": [two[1]]}
        ),
    )
    return _described(st.one_of(simple, compound))


@st.composite
def objects(draw: st.DrawFn, depth: int) -> JSON:
    """Schemas of objects."""
    properties = draw(st.dictionaries(KEYS, schemas(max(depth, 0)), max_size=4))
    schema: JSON = {"type": "object", "properties": properties}
    schema["required"] = [key for key in properties if draw(st.booleans())]
    more = draw(st.sampled_from(["", "", "", "closed", "open", "typed", "patterns"]))
    if more in {"closed", "open"}:
        schema["additionalProperties"] = more == "open"
    elif more == "typed":
        schema["additionalProperties"] = draw(schemas(0))
    elif more == "patterns":
        schema["patternProperties"] = {"^x_": draw(schemas(0))}
    if properties and draw(st.integers(0, 4)) == 0:
        schema["anyOf"] = [{"required": [key]} for key in properties]
    return schema


def anything() -> st.SearchStrategy[Any]:
    """What calls itself a schema: valid or not, keywords with any value."""
    words = "type properties required items enum const anyOf allOf $ref $defs additionalProperties"
    keys = st.sampled_from(
        [*words.split(), "prefixItems", "then", "if", "nullable", "dependencies"]
    )
    values = st.sampled_from(
        ["object", "array", "string", "#", "#/$defs/a", "#/a", ["object", 1], -1]
    )
    return st.recursive(
        st.one_of(SCALARS, values),
        lambda below: st.one_of(
            st.dictionaries(keys, below, max_size=4),
            st.dictionaries(TEXTS, below, max_size=2),
            st.lists(below, max_size=3),
        ),
        max_leaves=20,
    )


@st.composite
def _described(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    schema: object = draw(inner)
    if isinstance(schema, dict) and draw(st.integers(0, 3)) == 0:
        return {**cast("JSON", schema), "description": draw(DOCS)}
    return cast("Any", schema)


@st.composite
def _tuples(draw: st.DrawFn, below: st.SearchStrategy[Any]) -> JSON:
    places = draw(st.lists(below, min_size=1, max_size=3))
    schema: JSON = {"type": "array", "prefixItems": places}
    schema["items"] = draw(st.one_of(st.sampled_from([False]), below))
    schema["minItems"] = draw(st.integers(0, len(places)))
    return schema


# Values

_NONE = object()
"""There is none, or none that is soon found."""
_OF_TYPE = {
    "string": TEXTS,
    "number": st.sampled_from([0, 0.5, -3, 1e30]),
    "integer": st.integers(-100, 100),
    "boolean": st.booleans(),
    "null": st.none(),
}


def _is_valid(judge: jsonschema.Draft202012Validator, value: Any) -> bool:
    try:
        return judge.is_valid(value)  # pyright: ignore[reportUnknownMemberType] - one overload is loose
    except BaseException as error:  # a panic of Rust derives from it alone, and may carry another
        if "RecursionError" in repr(error):
            return False
        raise


def _value(draw: st.DrawFn, schema: Any, root: Any, depth: int) -> Any:
    """A value that ought to fit; the judge has the last word."""
    if depth > 6 or schema is False:
        return _NONE
    if schema is True or not schema:
        return draw(SCALARS)
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        return _value(draw, target, root, depth + 1)
    if "const" in schema or "enum" in schema:
        return draw(st.sampled_from([schema["const"]] if "const" in schema else schema["enum"]))
    parts = [_typed(draw, schema, root, depth)] if "type" in schema else []
    parts += [_value(draw, each, root, depth + 1) for each in schema.get("allOf", [])]
    for key in ("anyOf", "oneOf"):
        branches = [each for each in schema.get(key, []) if each != _only_required(each)]
        if branches:
            parts.append(_value(draw, draw(st.sampled_from(branches)), root, depth + 1))
    return _merged(parts)


def _only_required(schema: Any) -> Any:
    known: JSON = cast("JSON", schema) if isinstance(schema, dict) else {}
    return {"required": known.get("required")}


def _merged(parts: list[Any]) -> Any:
    if not parts or any(part is _NONE for part in parts):
        return _NONE
    if all(isinstance(part, dict) for part in parts):
        return {key: value for part in parts for key, value in part.items()}
    return parts[0]


def _typed(draw: st.DrawFn, schema: JSON, root: Any, depth: int) -> Any:
    kind: Any = schema["type"]
    kind = draw(st.sampled_from(cast("list[Any]", kind))) if isinstance(kind, list) else kind
    if kind == "object":
        return _object(draw, schema, root, depth)
    if kind == "array":
        return _array(draw, schema, root, depth)
    return draw(_OF_TYPE[kind])


def _object(draw: st.DrawFn, schema: JSON, root: Any, depth: int) -> Any:
    found: JSON = {}
    for key, each in schema.get("properties", {}).items():
        if key in schema.get("required", ()) or draw(st.booleans()):
            value = _value(draw, each, root, depth + 1)
            if value is not _NONE:
                found[key] = value
    extra = schema.get("additionalProperties")
    if extra is not None and extra is not False:
        value = _value(draw, extra, root, depth + 1)
        found |= {} if value is _NONE else {"more": value}
    for each in schema.get("patternProperties", {}).values():
        value = _value(draw, each, root, depth + 1)
        found |= {} if value is _NONE else {"x_y": value}
    return found


def _array(draw: st.DrawFn, schema: JSON, root: Any, depth: int) -> Any:
    places = schema.get("prefixItems", [])
    count = draw(st.integers(schema.get("minItems", 0), len(places) + 2))
    rest = schema.get("items", True)
    kinds = [*places, *([] if rest is False else [rest, rest])][:count]
    values = [_value(draw, each, root, depth + 1) for each in kinds]
    return _NONE if any(value is _NONE for value in values) else values


def shown(value: Any) -> str:
    """A value on one line, for a message."""
    return json.dumps(value, ensure_ascii=True)[:2000]
