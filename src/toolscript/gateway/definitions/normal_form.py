"""The normal form of a tool's definition: equal for definitions that mean the same to a model."""

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias, cast

import msgspec

from toolscript.text.json_values import as_object
from toolscript.types import ToolSpec

Definition: TypeAlias = dict[str, Any]
_TEXTS = {"title", "description"}
"""The keys of a schema whose values are text for people and models."""
_SETS = {"required", "enum"}
"""The keys of a schema whose lists have no order."""
_NAMED = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
"""The keys of a schema whose objects have names of the server's as keys."""


DIGEST_CHARS = 32
"""Hexadecimal digits: long enough that no server can make two definitions with the same digest."""
MIN_WORDS = 4
"""Texts with fewer words are alike by chance."""


def normal_form(tool: ToolSpec) -> Definition:
    """Returns a tool's name, texts, schemas and annotations without meaningless differences.

    White space in texts is folded, keys and sets are sorted, and empty fields are left out.
    Characters that cannot be seen stay: they mean something to a model. Of a repaired tool it is
    the definition of its server.
    """
    tool = tool.original
    fields = {
        "name": tool.name,
        "title": folded(tool.title),
        "description": folded(tool.description),
        "inputSchema": sorted_schema(tool.input_schema),
        "outputSchema": sorted_schema(tool.output_schema),
        "annotations": sorted_schema(tool.annotations),
        "skill": msgspec.to_builtins(tool.skill, order="deterministic"),
    }
    return {key: value for key, value in fields.items() if value}


def text_of(definition: Definition) -> str:
    """Returns a definition's title, description and parameters as one text."""
    texts = [str(definition.get("title", "")), str(definition.get("description", ""))]
    parameters = as_object(as_object(definition.get("inputSchema")).get("properties"))
    for name, value in parameters.items():
        texts += [name, str(as_object(value).get("description", ""))]
    return "\n".join(text for text in texts if text)


def kept_words(former: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Returns the share of a former text's words that another text has too, 0 to 1.

    Added words do not count: a long addition does not hide the origin of a text.
    """
    return len(former & other) / len(former) if len(former) >= MIN_WORDS else 0.0


def lines_of(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yields each leaf of a definition: its place, such as ``inputSchema.properties``, and text."""
    waiting: list[tuple[str, Any]] = list(reversed(definition.items()))
    while waiting:
        place, value = waiting.pop()
        if isinstance(value, dict) and value:
            inner = cast("Definition", value)
            waiting += [(f"{place}.{key}", each) for key, each in reversed(inner.items())]
        elif isinstance(value, str):
            yield place, value
        else:
            yield place, msgspec.json.encode(value).decode()


def folded(text: str) -> str:
    """Returns a text with each white space as one blank."""
    return " ".join(text.split())


def sorted_schema(
    value: Any,
    change: Callable[[str], str] = folded,
    unordered: Collection[str] = (),
    key: str = "",
    *,
    is_named: bool = False,
) -> Any:
    """Returns the value that a schema has at a key; schemas nest less deep than Python's stack.

    ``change`` is applied to texts, the lists at ``unordered`` keys are sets, too, and ``is_named``
    says that the value's own keys are names of the server's.
    """
    if isinstance(value, dict):
        inner = cast("Definition", value)
        return {
            name: sorted_schema(
                inner[name],
                change,
                unordered,
                "" if is_named else name,
                is_named=name in _NAMED and not is_named,
            )
            for name in sorted(inner)
        }
    if isinstance(value, list):
        items = [sorted_schema(item, change, unordered) for item in cast("list[Any]", value)]
        is_set = key in _SETS or key in unordered
        return sorted(items, key=msgspec.json.encode) if is_set else items
    if isinstance(value, str) and key in _TEXTS:
        return change(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
