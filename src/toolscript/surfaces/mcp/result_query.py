"""Queries JSON in JMESPath, at a cost that the JSON and the query together cannot exceed.

A query of a few hundred characters can copy a list a million times. So a query that may repeat too
much is refused before it begins, and its evaluation is counted.
"""

from math import prod
from typing import Any, cast

import jmespath
import msgspec
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.visitor import TreeInterpreter

from toolscript.errors import ArgumentsError
from toolscript.text.display import printable

MAX_QUERY_CHARS = 500
MAX_BYTES, MAX_VALUES = 16 * 2**20, 500_000
"""Longer JSON, and JSON with more values, is not queried."""
MAX_COPIED_BYTES = 64 * 2**20
"""The length of the JSON times the copies that a query may make of it."""
MAX_STEPS = 1_000_000
_CHARS_PER_STEP = 16
_EXAMPLE = "a query is JMESPath, such as rows[?price > `5`].name"
_COPYING = frozenset({"multi_select_list", "multi_select_dict", "merge"})


def query_json(text: bytes, query: str) -> Any:
    """Returns the value that a query finds in JSON.

    Raises `ArgumentsError` if the query cannot be read, does not fit the JSON, finds nothing, or
    takes too much work.
    """
    if len(query) > MAX_QUERY_CHARS:
        raise ArgumentsError(
            f"query has more than {MAX_QUERY_CHARS} characters; send a shorter one"
        )
    if len(text) > MAX_BYTES or text.count(b",") > MAX_VALUES:
        raise ArgumentsError("query: this result is too large for one; use lines or grep")
    try:
        parsed: Any = jmespath.compile(query).parsed
        if len(text) * _copies(parsed) > MAX_COPIED_BYTES:
            raise ArgumentsError(
                "query may copy too much of this result; name fewer fields at once"
            )
        found = _Interpreter().visit(parsed, msgspec.json.decode(text))
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ArgumentsError(f"query: {_reason(error)}; {_EXAMPLE}") from None
    if found is None:
        beginning = printable(text[:120].decode("utf-8", "replace"), 120)
        raise ArgumentsError(f"query finds nothing in {beginning}; {_EXAMPLE}")
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, JMESPathTypeError):  # whose text is as long as the value
        return f"{error.function_name}() takes no {error.actual_type}"
    first, _, _ = str(error).partition("\n")
    return printable(first.rstrip(":"), 160)


class _Interpreter(TreeInterpreter):
    """Evaluates one query, in at most `MAX_STEPS` steps."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MAX_STEPS

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        found: Any = super().visit(node, *args, **kwargs)
        self._left -= 1 + _length(found)
        if self._left < 0:
            raise ArgumentsError(
                "query takes too many steps; send one for less, such as rows[0:1000]"
            )
        return found


def _length(value: Any) -> int:
    """Returns the steps that a list or a text counts for."""
    if isinstance(value, str):
        return len(value) // _CHARS_PER_STEP
    return len(cast("list[Any]", value)) if isinstance(value, list) else 0


def _copies(node: Any) -> int:
    """Returns how many times a query may repeat a part of the JSON in its value."""
    children: list[Any] = [each for each in node.get("children", ()) if isinstance(each, dict)]
    kind = node["value"] if node["type"] == "function_expression" else node["type"]
    if kind == "join" and children and children[0]["type"] != "literal":
        raise ArgumentsError("query: join takes a separator in quotes, such as join(', ', names)")
    return max(1, len(children) if kind in _COPYING else 1) * prod(map(_copies, children))
