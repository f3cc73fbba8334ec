"""Arguments whose values differ from the schema in their types alone."""

from typing import Any

import pytest

from toolscript.app.argument_checks import check_arguments, signature
from toolscript.errors import ArgumentsError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": ["number", "null"]},
        "on": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "maybe": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "where": {"type": "object", "properties": {"line": {"type": "integer"}}},
        "text": {"type": "string"},
        "either": {"type": ["string", "integer"]},
        "few": {"type": "integer", "maximum": 3},
        "both": {"allOf": [{"type": "integer"}, {"type": "integer"}]},
    },
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"n": "5"}, {"n": 5}),
        ({"n": 1, "x": "2.5"}, {"n": 1, "x": 2.5}),
        ({"n": 1, "x": None}, {"n": 1, "x": None}),
        ({"n": 1, "on": "true"}, {"n": 1, "on": True}),
        ({"n": 1, "tags": '["a"]'}, {"n": 1, "tags": ["a"]}),
        ({"n": 1, "tags": "a b"}, {"n": 1, "tags": ["a b"]}),
        ({"n": 1, "maybe": '["1", 2]'}, {"n": 1, "maybe": [1, 2]}),
        ({"n": 1, "where": '{"line": "7"}'}, {"n": 1, "where": {"line": 7}}),
        ({"n": 1, "where": {"line": "7"}}, {"n": 1, "where": {"line": 7}}),
        ({"n": 1, "where": ""}, {"n": 1, "where": {}}),
        ({"n": 1, "text": None, "on": None}, {"n": 1}),
        ({"n": 1, "text": "5"}, {"n": 1, "text": "5"}),
        ({"n": 1, "either": "5"}, {"n": 1, "either": "5"}),
        ({"n": 1, "both": "5"}, {"n": 1, "both": 5}),
        ({"n": 1, "both": None}, {"n": 1}),
    ],
)
def test_what_differs_in_its_type_alone_is_read(given: dict[str, Any], read: Any) -> None:
    before = repr(given)
    for ours in (False, True):
        assert check_arguments("t", SCHEMA, given, ours=ours) == read
    assert repr(given) == before, "the caller's own arguments are not changed"


def test_several_alternatives_at_once_are_told_from_none() -> None:
    schema = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    for given, number in (({"a": 1, "b": 2}, "several"), ({}, "none")):
        with pytest.raises(ArgumentsError, match=f", which fits {number} of the alternatives"):
            check_arguments("t", schema, given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n": "five"}, 'n is "five"; expected integer'),
        ({"n": "5.5"}, 'n is "5.5"; expected integer'),
        ({"n": "true"}, 'n is "true"; expected integer'),
        ({"n": None}, "n is missing"),
        ({"n": 1, "x": "NaN"}, 'x is "NaN"; expected number or null'),
        ({"n": 1, "text": 5}, "text is 5; expected string"),
        ({"n": 1, "few": "9"}, "few is 9; it is greater than the maximum of 3"),
        ({"n": "5", "other": 1}, "t: other is not known. It takes"),
        ({"n": 1, "tags": "[" * 100_000}, "expected array"),
        ({"n": 1, "tags": f"[{1:>100000}]"}, "expected array"),
    ],
)
def test_what_cannot_be_read_so_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        check_arguments("t", SCHEMA, given)
    assert told in str(caught.value)
    assert "expected integer" not in str(caught.value) or "n is" in told


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"oneOf": [{"enum": ["a"]}, {"type": "integer"}]}, 'one of ["a"] or integer'),
        ({"type": "array", "items": {"anyOf": [{"type": "string"}] * 2}}, "array of string"),
        ({"anyOf": [{"type": "string"}, {}]}, "any"),
        ({"anyOf": "string"}, "any"),
    ],
)
def test_a_signature_names_each_type_that_a_parameter_may_have(schema: Any, kind: str) -> None:
    assert signature({"properties": {"a": schema}}) == f"(a?: {kind})"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"filePath": "a"}, "file_path is missing (filePath is not known; did you mean"),
        ({"filepaht": "a"}, "(filepaht is not known; did you mean file_path?)"),
        ({"depth": 1, "x": 2}, "t: file_path is missing. It takes"),
        ({"file_path ()\n": "a"}, '("file_path ()\\n" is not known; did you mean file_path?)'),
    ],
)
def test_a_name_beside_the_missing_one_is_told(given: dict[str, Any], told: str) -> None:
    properties = {"file_path": {"type": "string"}, "depth": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": ["file_path"]}
    with pytest.raises(ArgumentsError) as caught:
        check_arguments("t", schema, given)
    assert told in str(caught.value)
