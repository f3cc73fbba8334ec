"""Input schemas that take all the time there is, each with arguments that make it so."""

import json
from collections.abc import Callable
from typing import Any

_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_EVIL = "^(a+)+$"
_BACKTRACKS = {"a" * 40 + "!": 1}

Case = tuple[dict[str, Any], dict[str, Any]]


def _doubling(keyword: Callable[[dict[str, str]], dict[str, Any]], depth: int = 60) -> Any:
    """Definitions of which each asks for the next one twice."""
    steps = {f"a{n}": keyword({"$ref": f"#/$defs/a{n + 1}"}) for n in range(depth)}
    return {"type": "object", "$defs": {**steps, f"a{depth}": {}}, "$ref": "#/$defs/a0"}


def _nested(opening: str, closing: str, depth: int) -> Any:
    return json.loads(opening * depth + "{}" + closing * depth)


def _x(schema: Any, **definitions: Any) -> Any:
    return {"type": "object", "$defs": definitions, "properties": {"x": schema}}


HOSTILE: dict[str, Case] = {
    "all_of": (_doubling(lambda ref: {"allOf": [ref, ref]}), {}),
    "any_of": (_doubling(lambda ref: {"anyOf": [{"not": ref}, {"not": ref}]}), {}),
    "one_of": (_doubling(lambda ref: {"oneOf": [ref, ref]}), {}),
    "not": (_doubling(lambda ref: {"not": {"anyOf": [{"not": ref}, {"not": ref}]}}), {}),
    "if_then": (_doubling(lambda ref: {"if": ref, "then": ref}), {}),
    "if_else": (_doubling(lambda ref: {"if": {"not": ref}, "else": ref}), {}),
    "dependent_schemas": (
        _doubling(lambda ref: {"dependentSchemas": {"x": ref, "y": ref}}),
        {"x": 1, "y": 1},
    ),
    "another_dialect_within": (
        _x({"$schema": _DRAFT_7, "$ref": "#/properties/x/$defs/a0"})
        | {
            "properties": {
                "x": {"$schema": _DRAFT_7, "allOf": [_doubling(lambda r: {"allOf": [r, r]})]}
            }
        },
        {"x": {}},
    ),
    "pattern": (_x({"pattern": _EVIL}), {"x": "a" * 40 + "!"}),
    "pattern_of_another_dialect": (
        _x({"$schema": _DRAFT_7, "pattern": _EVIL}),
        {"x": "a" * 40 + "!"},
    ),
    "pattern_properties": ({"patternProperties": {_EVIL: {}}}, _BACKTRACKS),
    "additional_beside_patterns": (
        {"patternProperties": {_EVIL: {}}, "additionalProperties": False},
        _BACKTRACKS,
    ),
    "unevaluated_properties": (
        {"patternProperties": {_EVIL: {}}, "unevaluatedProperties": False},
        _BACKTRACKS,
    ),
    "unevaluated_of_references": (
        {**_doubling(lambda ref: {"allOf": [ref, ref]}), "unevaluatedProperties": False},
        {"x": 1},
    ),
    "unevaluated_items": (
        _x({"unevaluatedItems": False, "prefixItems": [{"pattern": _EVIL}]}),
        {"x": ["a" * 40 + "!"]},
    ),
    "property_names": ({"propertyNames": {"pattern": _EVIL}}, _BACKTRACKS),
    "draft_4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "patternProperties": {_EVIL: {}},
            "additionalProperties": False,
            "dependencies": {"a": ["b"] * 5000},
        },
        _BACKTRACKS,
    ),
    "draft_3": (
        {
            "$schema": "http://json-schema.org/draft-03/schema#",
            "extends": [{"extends": [{}] * 100}] * 100,
        },
        {},
    ),
    "wide_one_of": ({"oneOf": [{"oneOf": [{"type": "object"}] * 120}] * 120}, {}),
    "many_properties": (
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(6000)}},
        {},
    ),
    "many_required": ({"required": [f"p{n}" for n in range(15_000)]}, {}),
    "many_types": ({"type": ["string"] * 15_000}, {}),
    "many_unknown_keywords": (
        _x({"items": {"$ref": "#/$defs/a"}}, a={f"x-{n}": 1 for n in range(15_000)}),
        {"x": [1] * 4000},
    ),
    "enum_for_each_item": (_x({"items": {"enum": list(range(9000))}}), {"x": [-1] * 9000}),
    "enum_of_objects": (
        _x({"items": {"enum": [{"a": [[n]]} for n in range(2000)]}}),
        {"x": [{"a": [[-1]]}] * 4000},
    ),
    "const_of_a_list": (
        _x({"items": {"const": [[n] for n in range(5000)]}}),
        {"x": [[[n] for n in range(3000)]] * 3},
    ),
    "contains": (_x({"contains": {"enum": list(range(9000))}}), {"x": [-1] * 9000}),
    "unique_lists": (_x({"uniqueItems": True}), {"x": [[n] for n in range(9000)]}),
    "unique_of_two_kinds": (
        _x({"uniqueItems": True}),
        {"x": [n if n % 2 else str(n) for n in range(15_000)]},
    ),
    "dependent_required": (
        {"allOf": [{"dependentRequired": {"a": [f"k{n}" for n in range(4000)]}}] * 4},
        {"a": 1},
    ),
    "quotes_a_long_text": (_x({"anyOf": [{"type": "number"}] * 5000}), {"x": "y" * 4_000_000}),
    "quotes_long_lists": (_x({"allOf": [{"items": False}] * 3000}), {"x": ["y" * 1000] * 4000}),
    "quotes_long_names": (
        {"allOf": [{"additionalProperties": False}] * 3000},
        {f"{'k' * 200}{n}": 1 for n in range(15_000)},
    ),
    "errors_from_deep_down": (
        {"anyOf": [json.loads('{"allOf":[' * 40 + '{"allOf":[false,false]}' + "]}" * 40)] * 60},
        {},
    ),
    "refers_to_itself": ({"$ref": "#"}, {}),
    "refers_to_itself_by_id": ({"$id": "http://x/y", "$ref": "http://x/y"}, {}),
    "anchors": (
        {"$defs": {f"d{n}": {"$anchor": f"n{n}"} for n in range(2000)}}
        | {"allOf": [{"$ref": "#n9"}] * 3000},
        {},
    ),
    "dynamic_references": ({"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}] * 2}, {}),
    "recursive_references": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "allOf": [{"$recursiveRef": "#"}] * 2,
        },
        {},
    ),
    "a_long_reference": ({"$ref": "#/" + "allOf/0/" * 20_000}, {}),
    "a_reference_to_the_network": ({"$ref": "http://127.0.0.1:1/x"}, {}),
    "deep_schema": (_nested('{"not":', "}", 150), {}),
    "deep_arguments": ({"properties": {"x": {"$ref": "#"}}}, _nested('{"x":', "}", 150)),
    "multiple_of_little": (_x({"multipleOf": 1e-300}), {"x": 10**18}),
    "multiple_of_a_huge_number": (_x({"multipleOf": 0.1}), {"x": 10**4000}),
    "format": (_x({"format": "regex", "pattern": "(" * 5000}), {"x": "(" * 100_000}),
    "no_dialect": ({"$schema": ["x"]}, {}),
    "half_a_character": ({"properties": {"\ud800": {}}}, {}),
}
"""By name: 45 and more kinds."""
