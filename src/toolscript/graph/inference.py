"""Infers which tools a tool needs first, from the tools' descriptions and schemas.

Only if that is hardly ambiguous, and only within a server:

- the description names the other tool, as an identifier, and says that it comes
  first: "use list_tables first", "the id from search_flights", "requires login";
- a required parameter that identifies something (``issue_id``) which the input of
  one other tool only does not ask for, and whose output schema provides it.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from toolscript.text.json_values import as_list, as_object
from toolscript.types import ToolSpec

MAX_AROUND_CHARS = 120
"""The characters before and after a name that are read."""
MAX_TOOLS = 5000
MAX_MENTIONS = 100
"""The maximum number of places of a description that are searched for tools' names."""
MAX_NEEDS = 20
"""The maximum number of needs of one tool."""
_MAX_DESCRIPTION_CHARS = 8000
_TOKEN = re.compile(r"[\w-]+|(?<![\w-])[^\w-]")
"""The beginning of a name in a text: all letters up to a separator, or one separator."""
_WORD = re.compile(r"[\w-]")
_BEFORE = re.compile(
    r"(?:\bfirst,?\s+(?:use|call|run|invoke)|\bafter(?:\s+(?:using|calling|running))?|\bfrom"
    r"|\b(?:returned|provided|given)\s+by|\b(?:obtained|retrieved)\s+(?:by|from|via|using|with)"
    r"|\brequires|\b(?:results?|output)\s+of)"
    r"\s+(?:calling\s+|using\s+)?(?:the\s+|a\s+)?[`'\"*(\[]*$",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:instead|rather|unlike|not|don't|never|similar|see also|alternative|like|prefer)\b",
    re.IGNORECASE,
)
_FIRST = re.compile(
    r"^[`'\"*)\](]*\s*(?:tool\b|command\b)?[,\s]*(?:first\b|beforehand\b"
    r"|before\s+(?:using|calling|this)\b)",
    re.IGNORECASE,
)
_COMPOUND = re.compile("[_-]|[a-z][A-Z]")
_IDENTIFIER = re.compile(r"(?:_|[a-z])[iI]ds?$")


def inferred(tools: Iterable[ToolSpec]) -> dict[str, dict[str, str]]:
    """Returns for each tool the tools that it most likely needs first, and why."""
    servers: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        servers[tool.server].append(tool)
    needs: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for server in servers.values():
        for tool, needed, why in (
            *_find_named(server[:MAX_TOOLS]),
            *_find_provided(server[:MAX_TOOLS]),
        ):
            if len(needs[tool]) < MAX_NEEDS:
                needs[tool].setdefault(needed, why)
    one_way = {tool: _without_mutual(tool, needs) for tool in needs}
    return {tool: needed for tool, needed in one_way.items() if needed}


def _without_mutual(tool: str, needs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Returns a tool's needs: two tools that need each other, or one itself, mean nothing."""
    return {other: why for other, why in needs[tool].items() if tool not in needs.get(other, {})}


def _find_named(tools: list[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    # names that no sentence contains by chance
    names = {tool.name: tool.id for tool in tools if _COMPOUND.search(tool.name)}
    lengths: dict[str, list[int]] = {}  # of the names that begin with a token, longest first
    for length, token in sorted({(-len(name), _TOKEN.findall(name)[0]) for name in names}):
        lengths.setdefault(token, []).append(-length)
    for tool in tools:
        for start, end in _mentions(tool.description[:_MAX_DESCRIPTION_CHARS], names, lengths):
            name = tool.description[start:end]
            if names[name] != tool.id and _comes_first(tool.description, start, end):
                yield tool.id, names[name], f"its description names {name} first"


def _mentions(
    text: str, names: Container[str], lengths: Mapping[str, list[int]]
) -> Iterator[tuple[int, int]]:
    """Yields the places of names that stand alone in a text, from left to right, longest first."""
    if lengths.keys().isdisjoint(_TOKEN.findall(text)):
        return
    end = 0
    tokens = (token for token in _TOKEN.finditer(text) if token[0] in lengths)
    for token in islice(tokens, MAX_MENTIONS):
        start = token.start()
        ends = (start + length for length in lengths[token[0]]) if start >= end else ()
        for each in ends:
            if text[start:each] in names and not _WORD.match(text, each):
                end = each
                yield start, end
                break


def _comes_first(text: str, start: int, end: int) -> bool:
    first = max(0, start - MAX_AROUND_CHARS)
    sentence = max(text.rfind(stop, first, start) for stop in (". ", "\n", ";")) + 1
    before = text[max(sentence, first) : start]
    after = text[end : end + MAX_AROUND_CHARS]
    if _NOT.search(before) or _NOT.search(after.split(".")[0]):
        return False
    return bool(_BEFORE.search(before) or _FIRST.search(after))


def _find_provided(tools: list[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    """Yields needs for identifiers that one tool's output has and another's input requires."""
    providers: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        for name in _outputs(tool):
            if _IDENTIFIER.search(name) and name not in _properties(tool.input_schema):
                providers[name].append(tool)
    for tool in tools:
        for name in _list_required(tool):
            if _IDENTIFIER.search(name) and len(providers[name]) == 1:
                yield tool.id, providers[name][0].id, f"its parameter {name} is in the result"


def _list_required(tool: ToolSpec) -> list[str]:
    names = as_list(tool.input_schema.get("required"))
    return [name for name in names if isinstance(name, str)]


def _outputs(tool: ToolSpec) -> set[str]:
    """Returns the names in the output schema, those of a list's entries included."""
    names: set[str] = set()
    front: list[Any] = [tool.output_schema]
    for _ in range(4):
        deeper: list[Any] = []
        for schema in front:
            properties = _properties(schema)
            names |= set(properties)
            deeper += properties.values()
            deeper.append(as_object(schema).get("items"))
        front = deeper
    return names


def _properties(schema: Any) -> dict[str, Any]:
    return as_object(as_object(schema).get("properties"))
