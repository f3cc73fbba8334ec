"""The tools that toolscript itself offers to models, as MCP lists them."""

from collections.abc import Iterable
from typing import Any

from toolscript.text import compact, printable, unusual_name
from toolscript.types import ServerStatus

SEARCH, DESCRIBE, CALL, FIND = "search_tools", "describe_tools", "call_tool", "tool_search"
SKILLS, READ = "search_skills", "read_skill"
OWN_NAMES = frozenset({SEARCH, DESCRIBE, CALL, FIND, SKILLS, READ})
"""A server's tool of such a name is marked; it cannot take their place: its id has its server."""
MAX_LIMIT = 100
MAX_DESCRIBED = 20
SEARCH_LIMIT, FIND_LIMIT, SKILLS_LIMIT = 10, 4, 5
_MAX_SERVERS = 30
_READS = {"readOnlyHint": True, "openWorldHint": False}


def summary(servers: Iterable[ServerStatus]) -> str:
    """What is behind the search, on one line: ``git (12), files (11)``."""
    offered = [server for server in servers if server.tools]
    if not offered:
        return "no tools at the moment"
    named = [f"{printable(s.name, 40)} ({s.tools})" for s in offered[:_MAX_SERVERS]]
    more = len(offered) - len(named)
    named += [f"{more} more servers"] if more else []
    return f"{sum(s.tools for s in offered)} tools: {', '.join(named)}"


def name_warning(name: str) -> str:
    """Returns what to know before trusting a server's tool of this name; mostly nothing."""
    unusual = unusual_name(name)
    if compact(name) in {compact(own) for own in OWN_NAMES}:
        return "it is called like a tool of toolscript's own"
    return f"its name has unusual characters ({unusual})" if unusual else ""


def marked(name: str) -> dict[str, str]:
    """Returns the field ``warning`` of an answer about a tool, where there is something to say."""
    warning = name_warning(name)
    return {"warning": warning} if warning else {}


def search_tools(behind: str, skills: int = 0) -> dict[str, Any]:
    """``search_tools``: the search; where there are skills, they can stand in its list."""
    also = "Also skills, which explain how a task is done." if skills else ""
    asked = {"include_skills": {"type": "boolean", "description": also}} if skills else {}
    return {
        "name": SEARCH,
        "title": "Search tools",
        "description": (
            f"Find tools by what they should do. Behind this search are {behind}. "
            "Search whenever the task needs something that none of your tools does, before you "
            f"say that you cannot do it. Then call what was found with {CALL}."
        ),
        "inputSchema": _object(
            ["query"],
            query=_string("What the tool should do, such as 'read a file', or a tool's name."),
            limit=_integer(f"At most this many tools (default {SEARCH_LIMIT}).", MAX_LIMIT),
            context_tools=_strings(
                "Ids of tools used so far, the last one last, so that what goes with them ranks "
                "higher. Without it, those of this session."
            ),
            needed={
                "type": "boolean",
                "description": "Also rank the tools that the best ones need first.",
            },
            **asked,
        ),
        "annotations": _READS,
    }


def search_skills(count: int) -> dict[str, Any]:
    """``search_skills``: texts that say how something is done."""
    return {
        "name": SKILLS,
        "title": "Search skills",
        "description": (
            f"Find instructions for a task among {count} skills: texts that say how something is "
            f"done. Search before a task that may have a procedure, then read one with {READ}."
        ),
        "inputSchema": _object(
            ["query"],
            query=_string("The task, such as 'fill in a PDF form'."),
            limit=_integer(f"At most this many skills (default {SKILLS_LIMIT}).", MAX_LIMIT),
        ),
        "annotations": _READS,
    }


def read_skill() -> dict[str, Any]:
    """``read_skill``: one of them, whole."""
    return {
        "name": READ,
        "title": "Read a skill",
        "description": "The whole text of a skill that was found, or a text file that it names.",
        "inputSchema": _object(
            ["skill"],
            skill=_string("The skill's name or id, as the search has it."),
            file=_string("A file of the skill's folder, such as 'references/forms.md'."),
        ),
        "annotations": _READS,
    }


def describe_tools() -> dict[str, Any]:
    """``describe_tools``: everything about a few of them."""
    return {
        "name": DESCRIBE,
        "title": "Describe tools",
        "description": (
            "The whole description and input schema of tools that a search has found. "
            "Needed only where a signature is not enough to call the tool."
        ),
        "inputSchema": _object(
            ["tools"],
            tools={**_strings("Ids of tools, as the search has them."), "maxItems": MAX_DESCRIBED},
        ),
        "annotations": _READS,
    }


def call_tool() -> dict[str, Any]:
    """``call_tool``: any tool, whether it is listed or not."""
    return {
        "name": CALL,
        "title": "Call a tool",
        "description": "Call a tool that was found, by its id, and get its result.",
        "inputSchema": _object(
            ["tool"],
            tool=_string("The tool's id, as the search has it."),
            arguments={
                "type": "object",
                "description": "The tool's own arguments.",
                "additionalProperties": True,
            },
        ),
        "annotations": {"openWorldHint": True},
    }


def tool_search(behind: str) -> dict[str, Any]:
    """``tool_search``: the first of two phases."""
    return {
        "name": FIND,
        "title": "Find tools for the task",
        "description": (
            f"Search for relevant tools based on your task. There are {behind}. The tools found "
            f"become available; if you do not see them, call them with {CALL}."
        ),
        "inputSchema": _object(
            ["query"],
            query=_string("What the task needs, such as 'read a file' or 'list a directory'."),
            max_tools=_integer(f"At most this many tools (default {FIND_LIMIT}).", MAX_LIMIT),
        ),
        "annotations": _READS,
    }


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _integer(description: str, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": description}


def _strings(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}
