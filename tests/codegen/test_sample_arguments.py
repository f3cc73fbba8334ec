"""Examples of calls fit the schemas that they are for."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from toolscript.codegen.sample_arguments import sample
from toolscript.codegen.schema import read

TEXT: dict[str, Any] = {"type": "string"}


def example(**fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    made = sample(read(schema))
    validator: Any = Draft202012Validator(schema)
    validator.validate(made)
    return made


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("source_timezone", "Europe/Paris"),
        ("timezone", "Europe/Paris"),
        ("startTime", "12:00:00"),
        ("file_path", "file.txt"),
        ("profile", "text"),
        ("direction", "text"),
        ("candidate", "text"),
        ("recipientEmail", "someone@example.com"),
        ("page-url", "https://example.com"),
    ],
)
def test_a_text_is_what_the_words_of_its_name_say(name: str, shown: str) -> None:
    assert example(**{name: TEXT}) == {name: shown}


def test_a_format_is_what_counts() -> None:
    assert example(time={**TEXT, "format": "date"}) == {"time": "2026-01-31"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number", "minimum": 5}, 5),
        ({"type": "integer", "exclusiveMinimum": 5.5}, 7),
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "exclusiveMaximum": -3}, -4),
        ({"type": "integer", "minimum": -5, "maximum": 5}, 1),
        ({"type": "string", "minLength": 9}, "texttexttext"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2}, [1]),
    ],
)
def test_a_value_keeps_within_its_bounds(schema: dict[str, Any], value: Any) -> None:
    assert example(x=schema) == {"x": value}


def test_an_exclusive_bound_of_an_older_schema_is_no_number() -> None:
    schema: Any = {"type": "integer", "minimum": 3, "exclusiveMinimum": True}
    shape = read({"type": "object", "properties": {"x": schema}, "required": ["x"]})
    assert sample(shape) == {"x": 3}
