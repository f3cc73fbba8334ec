"""What a tool most likely needs first, inferred from what tools say of themselves.

Only what can hardly mean anything else is taken, and only within a server:

- the description names the other tool, as an identifier, and says that it comes
  first: "use list_tables first", "the id from search_flights", "requires login";
- a required parameter that identifies something (``issue_id``) which the input of
  one other tool only does not ask for, and whose output schema provides it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from toolscript.types import ToolSpec

MAX_NAMED = 120
"""Characters around a name that are looked at."""
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
_IDENTIFIER = re.compile(r"(?:_|[a-z])[iI]ds?$")


def inferred(tools: Iterable[ToolSpec]) -> dict[str, dict[str, str]]:
    """Tool → what it most likely needs first → why."""
    servers: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        servers[tool.server].append(tool)
    found: dict[str, dict[str, str]] = {}
    for server in servers.values():
        for tool, needed, why in (*_named(server[:MAX_TOOLS]), *_provided(server[:MAX_TOOLS])):
            if tool != needed:
                found.setdefault(tool, {}).setdefault(needed, why)
    kept = {tool: _one_way(tool, needs, found) for tool, needs in found.items()}
    return {tool: needs for tool, needs in kept.items() if needs}


class Inference:
    """The same for servers that come and change: asked again only of those that did."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[ToolSpec, ...], dict[str, dict[str, str]]]] = {}

    def of(self, servers: Mapping[str, tuple[ToolSpec, ...]]) -> dict[str, dict[str, str]]:
        """Tool → what it most likely needs first → why, for the tools of every server."""
        known = self._known
        self._known = {
            name: known[name]
            if name in known and known[name][0] is tools
            else (tools, inferred(tools))
            for name, tools in servers.items()
        }
        return {tool: needs for _, found in self._known.values() for tool, needs in found.items()}


def _one_way(
    tool: str, needs: Mapping[str, str], found: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Two tools that need each other tell nothing."""
    return {each: why for each, why in needs.items() if tool not in found.get(each, {})}


def _named(tools: list[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    names = {tool.name: tool.id for tool in tools if _is_identifier(tool.name)}
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
    before = text[max(sentence, match.start() - MAX_NAMED) : match.start()]
    after = text[match.end() : match.end() + MAX_NAMED]
    if _NOT.search(before) or _NOT.search(after.split(".")[0]):
        return False
    return bool(_BEFORE.search(before) or _FIRST.search(after))


def _provided(tools: list[ToolSpec]) -> Iterator[tuple[str, str, str]]:
    """Identifiers that one tool's output has and another's input requires."""
    givers: defaultdict[str, list[ToolSpec]] = defaultdict(list)
    for tool in tools:
        for name in _outputs(tool):
            if _IDENTIFIER.search(name) and name not in _inputs(tool):
                givers[name].append(tool)
    for tool in tools:
        for name in _required(tool):
            if _IDENTIFIER.search(name) and len(givers[name]) == 1:
                yield tool.id, givers[name][0].id, f"its parameter {name} is in the result"


def _is_identifier(name: str) -> bool:
    """A name that no sentence contains by chance."""
    return "_" in name or "-" in name or bool(re.search("[a-z][A-Z]", name))


def _inputs(tool: ToolSpec) -> set[str]:
    return set(_properties(tool.input_schema))


def _required(tool: ToolSpec) -> list[str]:
    required: Any = tool.input_schema.get("required")
    return (
        [name for name in cast("list[Any]", required) if isinstance(name, str)]
        if isinstance(required, list)
        else []
    )


def _outputs(tool: ToolSpec) -> set[str]:
    """Names in the output schema, those of the entries of a list included."""
    found: set[str] = set()
    front: list[Any] = [tool.output_schema]
    for _ in range(4):
        deeper: list[Any] = []
        for schema in front:
            properties = _properties(schema)
            found |= set(properties)
            deeper += properties.values()
            if isinstance(schema, dict):
                deeper.append(cast("dict[str, Any]", schema).get("items"))
        front = deeper
    return found


def _properties(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}
    properties: Any = cast("dict[str, Any]", schema).get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
