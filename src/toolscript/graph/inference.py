"""Infers which tools a tool needs first, from the tools' descriptions and schemas.

Only where that is hardly ambiguous, and only within a server:

- the description names the other tool, as an identifier, and says that it comes
  first: "use list_tables first", "the id from search_flights", "requires login";
- a required parameter that identifies something (``issue_id``) which the input of
  one other tool only does not ask for, and whose output schema provides it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, cast

from toolscript.types import ToolSpec

MAX_AROUND_CHARS = 120
"""The characters before and after a name that are read."""
MAX_TOOLS = 5000
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
    """Returns for each tool what it most likely needs first, and why."""
    servers: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        servers[tool.server].append(tool)
    needs: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for server in servers.values():
        for tool, needed, why in (*_named(server[:MAX_TOOLS]), *_provided(server[:MAX_TOOLS])):
            needs[tool].setdefault(needed, why)
    one_way = {  # two tools that need each other, or one that needs itself, mean nothing
        tool: {other: why for other, why in needed.items() if tool not in needs.get(other, {})}
        for tool, needed in needs.items()
    }
    return {tool: needed for tool, needed in one_way.items() if needed}


def _named(tools: list[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    # names that no sentence contains by chance
    names = {tool.name: tool.id for tool in tools if _COMPOUND.search(tool.name)}
    if not names:
        return
    ordered = sorted(names, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, ordered))})(?![\w-])")
    for tool in tools:
        for match in pattern.finditer(tool.description[:8000]):
            if names[match[1]] != tool.id and _comes_first(tool.description, match):
                yield tool.id, names[match[1]], f"its description names {match[1]} first"


def _comes_first(text: str, match: "re.Match[str]") -> bool:
    sentence = max(text.rfind(stop, 0, match.start()) for stop in (". ", "\n", ";")) + 1
    before = text[max(sentence, match.start() - MAX_AROUND_CHARS) : match.start()]
    after = text[match.end() : match.end() + MAX_AROUND_CHARS]
    if _NOT.search(before) or _NOT.search(after.split(".")[0]):
        return False
    return bool(_BEFORE.search(before) or _FIRST.search(after))


def _provided(tools: list[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    """Yields needs for identifiers that one tool's output has and another's input requires."""
    providers: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        for name in _outputs(tool):
            if _IDENTIFIER.search(name) and name not in _properties(tool.input_schema):
                providers[name].append(tool)
    for tool in tools:
        for name in _required(tool):
            if _IDENTIFIER.search(name) and len(providers[name]) == 1:
                yield tool.id, providers[name][0].id, f"its parameter {name} is in the result"


def _required(tool: ToolSpec) -> list[str]:
    required: Any = tool.input_schema.get("required")
    names = cast("list[Any]", required) if isinstance(required, list) else []
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
            if isinstance(schema, dict):
                deeper.append(cast("dict[str, Any]", schema).get("items"))
        front = deeper
    return names


def _properties(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}
    properties: Any = cast("dict[str, Any]", schema).get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
