"""Queries of stored results: JMESPath, one line for each mistake, and a bound for each attack."""

import json
from typing import Any

import pytest

from toolscript.errors import ArgumentsError
from toolscript.surfaces.mcp.result_query import MAX_BYTES, MAX_VALUES, query_json

ROWS = [{"id": number, "name": f"row {number}", "tags": ["a", "b"]} for number in range(500)]
DOCUMENT = {"rows": ROWS, "text": "x" * 100_000, "s": "abc", "none": None}
TEXT = json.dumps(DOCUMENT).encode()


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("rows[3].id", 3),
        ("rows[1:3].name", ["row 1", "row 2"]),
        ("rows[?id > `497`].{i: id, t: tags[0]}", [{"i": 498, "t": "a"}, {"i": 499, "t": "a"}]),
        ("rows[?name == 'row 7'].id | [0]", 7),
        ("max_by(rows, &id).name", "row 499"),
        ("join(', ', rows[:2].name)", "row 0, row 1"),
        ("rows[9999:]", []),
    ],
)
def test_a_query_finds_a_value(query: str, value: Any) -> None:
    assert query_json(TEXT, query) == value


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("rows[a]", "query: Expecting: star, got: unquoted_identifier: Parse error at column 5"),
        ("rows[?id=`5`]", "query: Bad jmespath expression: Unknown token '='"),
        ("", "query: Invalid JMESPath expression: cannot be empty."),
        ("foo(@)", "query: Unknown function: foo()"),
        ("keys(rows)", "query: keys() takes no array"),
        ("s > `1`", "query: '>' not supported between instances of 'str' and 'int'"),
        ("ceil(`1e999`)", "query: cannot convert float infinity to integer"),
        ("rows[::0]", "query: slice step cannot be zero"),
        ("none", 'query finds nothing in {"rows": [{"id": 0, "name": "row 0"'),
        ("!" * 500, "query: maximum recursion depth exceeded"),
    ],
)
def test_a_mistake_is_one_line_with_an_example(query: str, told: str) -> None:
    with pytest.raises(ArgumentsError) as caught:
        query_json(TEXT, query)
    assert str(caught.value).startswith(told)
    assert str(caught.value).endswith("; a query is JMESPath, such as rows[?price > `5`].name")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("a" * 501, "more than 500 characters"),
        ("|".join(["[@,@]"] * 60), "may copy too much"),
        ("rows|" + "|".join(["[@,@][]"] * 30), "may copy too much"),
        ("|".join(["merge({a:@},{b:@})"] * 20), "may copy too much"),
        ("[merge(), " + "|".join(["[@,@]"] * 30) + "]", "may copy too much"),
        ("rows[].[" + "|".join(["[@,@]"] * 20) + "]|[?[0]==[1]]", "may copy too much"),
        ("join(text, rows[].name)", "join takes a separator in quotes"),
        ("|".join(["to_string([@])"] * 30), "takes too many steps"),
        ("[" + ",".join(["rows"] * 80) + "][].[@,@][].[@,@][]", "takes too many steps"),
    ],
)
def test_a_query_that_would_take_too_much_is_refused(query: str, told: str) -> None:
    with pytest.raises(ArgumentsError, match=told):
        query_json(TEXT, query)


def test_too_large_json_is_not_queried() -> None:
    for text in (b"0," * (MAX_VALUES + 1), b"x" * (MAX_BYTES + 1)):
        with pytest.raises(ArgumentsError, match="too large for one; use lines or grep"):
            query_json(text, "length(@)")
