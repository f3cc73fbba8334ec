"""The normal form of a tool's definition: equal for definitions that mean the same to a model."""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import msgspec

from toolscript.text.json_values import as_object
from toolscript.text.words import words
from toolscript.types import ToolSpec, sha256_of

Definition: TypeAlias = dict[str, Any]
TEXTS = {"title", "description"}
"""The keys of a schema whose values are text for people and models."""
NAMED = {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
"""The keys of a schema whose objects have names of the server's as keys."""
_SETS = {"required", "enum", "type"}
"""The keys of a schema whose lists have no order."""
DIGEST_CHARS = 32
"""Hexadecimal digits: long enough that no server can make two definitions with the same digest."""
_HEAD = (
    r"\b(?:(?:allowed|available|supported|valid|possible|accepted|permitted|known)(?: [a-z]+){1,2}"
    r"|(?:one|any) of(?: the following)?)(?: are)?(?: ?:|(?= ?[\[({]))"
)
_WORD = r"[a-z0-9_./+#*@-]*[a-z0-9_/+#*]"
_ITEM = rf"(?:{_WORD}|'{_WORD}'|\"{_WORD}\"|`{_WORD}`)"
_ENUMERATION = re.compile(
    rf"(?P<head>{_HEAD} ?[\[({{]?)(?P<items>{_ITEM}(?:, ?{_ITEM}){{2,}})"
    rf"(?P<end>[\])}}]?\.?)(?=\Z| {_HEAD})",
    re.ASCII | re.IGNORECASE,
)
"""Single words after such as "Allowed commands:", to the end of the text or the next such words.

Servers that keep a list as a set write it in another order at each start.
"""
_RANK = re.compile(
    r"\b(?:first|second|third|last|final|former|latter|next|then|before|after|nth|\d+(?:st|nd|rd|th)"
    r"|(?:order|sequen|step|priorit|prefer|preced|previous|follow|rank|position|begin|start|end|top"
    r"|bottom|left|right|above|below|sort)\w*)\b|#\d",
    re.ASCII | re.IGNORECASE,
)
"""Words that may give a meaning to a place in a list."""


def normal_form(tool: ToolSpec) -> Definition:
    """Returns a tool's name, texts, schemas and annotations without meaningless differences.

    White space in texts is folded; keys, sets and enumerations of names in texts are sorted; and
    empty fields are left out. Characters that cannot be seen stay: they mean something to a model.
    Of a repaired tool it is the definition of its server.
    """
    tool = tool.original
    return in_order(
        {
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": tool.input_schema,
            "outputSchema": tool.output_schema,
            "annotations": tool.annotations,
        }
    )


def in_order(definition: Definition) -> Definition:
    """Returns the normal form of a definition's fields: its own if it is one."""
    fields = ((key, _sort(value, key)) for key, value in definition.items())
    return {key: value for key, value in fields if value}


def definition_digest(tool: ToolSpec) -> str:
    """Returns a digest that stands for a tool's id, definition and repair."""
    repair = [tool.repair] if tool.repair else []
    return sha256_of([tool.id, normal_form(tool), *repair])[:DIGEST_CHARS]


def words_of(definition: Definition) -> frozenset[str]:
    """Returns the words of a definition's title, description and parameters."""
    texts = [str(definition.get("title", "")), str(definition.get("description", ""))]
    parameters = as_object(as_object(definition.get("inputSchema")).get("properties"))
    for name, value in parameters.items():
        texts += [name, str(as_object(value).get("description", ""))]
    return frozenset(words("\n".join(texts)))


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


def _sort(value: Any, key: str = "", *, is_named: bool = False) -> Any:
    """Returns the value that a schema has at a key; schemas nest less deep than Python's stack.

    ``is_named`` says that the value's own keys are names of the server's.
    """
    if isinstance(value, dict):
        inner = cast("Definition", value)
        return {
            name: _sort(
                inner[name],
                "" if is_named else name,
                is_named=name in NAMED and not is_named,
            )
            for name in sorted(inner)
        }
    if isinstance(value, list):
        items = [_sort(item) for item in cast("list[Any]", value)]
        return sorted(items, key=msgspec.json.encode) if key in _SETS else items
    if isinstance(value, str) and key in TEXTS:
        return _sort_enumerations(" ".join(value.split()))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _sort_enumerations(text: str) -> str:
    """Returns a text with its enumerations sorted, unless other words speak of an order."""
    has_ranks = _RANK.search(_ENUMERATION.sub(r"\g<head>", text))
    return text if has_ranks else _ENUMERATION.sub(_sort_items, text)


def _sort_items(match: re.Match[str]) -> str:
    items = sorted(re.split(", ?", match["items"]))
    return f"{match['head']}{', '.join(items)}{match['end']}"
