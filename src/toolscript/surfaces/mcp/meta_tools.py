"""The tools that toolscript itself offers to models, as MCP lists them."""

from collections.abc import Iterable
from typing import Any

from toolscript.retrieval.profiles import SHORT_SEARCH, TOOL_SEARCH
from toolscript.text.display import printable
from toolscript.text.names import name_warning
from toolscript.types import ServerStatus, ToolClass

SEARCH, DESCRIBE, FIND = "search_tools", "describe_tools", "tool_search"
READ_TOOL, CALL, DESTROY = "read_tool", "call_tool", "call_destructive_tool"
CALLS: dict[ToolClass, str] = {"read": READ_TOOL, "write": CALL, "destructive": DESTROY}
"""Which of our tools calls the tools of a class."""
SKILLS, READ = "search_skills", "read_skill"
OWN_NAMES = frozenset({SEARCH, DESCRIBE, FIND, *CALLS.values(), SKILLS, READ})
"""A server's tool of such a name is marked; it cannot replace ours, as its id has its server."""
MAX_LIMIT = 100
MAX_DESCRIBED = 20
_MAX_SERVERS = 30
_READS = {"readOnlyHint": True, "openWorldHint": False}


def summary(servers: Iterable[ServerStatus]) -> str:
    """Returns what can be searched, on one line: ``the tools of files, git``.

    It has no numbers and says nothing about states: clients cache what it is part of.
    """
    names = sorted(printable(s.name, 40) for s in servers if s.state not in {"disabled", "invalid"})
    more = len(names) - _MAX_SERVERS
    listed = names[:_MAX_SERVERS] + ([f"{more} more servers"] if more > 0 else [])
    return f"the tools of {', '.join(listed)}" if listed else "the tools of the user's servers"


def marked(name: str) -> dict[str, str]:
    """Returns the field ``warning`` of an answer about a tool, where there is a warning."""
    warning = name_warning(name, OWN_NAMES)
    return {"warning": warning} if warning else {}


def meta_tools(tools: str, *, has_skills: bool) -> dict[str, dict[str, Any]]:
    """Returns every meta tool by name, as MCP lists it.

    ``tools`` is the `summary` of what can be searched, ``has_skills`` whether there are skills.
    """
    include_skills = {
        "type": "boolean",
        "description": "Also skills, which explain how a task is done.",
    }
    with_skills: dict[str, Any] = {"include_skills": include_skills} if has_skills else {}
    detail = {"type": "boolean", "description": "Answer in JSON, with all scores."}
    entries = (
        _entry(
            FIND,
            "Find tools for the task",
            f"Search for relevant tools based on your task, among {tools}. The tools found "
            "become available; if you do not see them, call each with the tool in brackets.",
            query=_string("What the task needs, such as 'read a file' or 'list a directory'."),
            max_tools=_integer(f"At most this many tools (default {TOOL_SEARCH.limit})."),
            detail=detail,
        ),
        _entry(
            SEARCH,
            "Search tools",
            f"Find tools by what they should do, among {tools}. Search whenever the task needs "
            "something that none of your tools does, before you say that you cannot do it. Then "
            "call what was found with the tool in brackets.",
            query=_string("What the tool should do, such as 'read a file', or a tool's name."),
            limit=_integer(f"At most this many tools (default {SHORT_SEARCH.limit})."),
            context_tools=_strings(
                "Ids of tools used so far, the last one last, so that what goes with them ranks "
                "higher. Without it, those of this session."
            ),
            needed={
                "type": "boolean",
                "description": "Also rank the tools that the best ones need first.",
            },
            detail=detail,
            **with_skills,
        ),
        _entry(
            DESCRIBE,
            "Describe tools",
            "The whole description and input schema of tools that a search has found. "
            "Needed only where a signature is not enough to call the tool.",
            tools={**_strings("Ids of tools, as the search has them."), "maxItems": MAX_DESCRIBED},
        ),
        *(_call(*each) for each in _CALL_ENTRIES),
        _entry(
            SKILLS,
            "Search skills",
            "Find instructions for a task: texts that say how something is done. Search before a "
            f"task that may have a procedure, then read one with {READ}.",
            query=_string("The task, such as 'fill in a PDF form'."),
            limit=_integer(f"At most this many skills (default {SHORT_SEARCH.limit})."),
            detail=detail,
        ),
        _entry(
            READ,
            "Read a skill",
            "The whole text of a skill that was found, or a text file that it names.",
            skill=_string("The skill's name or id, as the search has it."),
            file=_string("A file of the skill's folder, such as 'references/forms.md'."),
        ),
    )
    return {entry["name"]: entry for entry in entries}


def _entry(
    name: str,
    title: str,
    description: str,
    annotations: dict[str, bool] = _READS,
    **properties: dict[str, Any],
) -> dict[str, Any]:
    """Returns a tool whose first parameter is the one that is required."""
    return {
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": [next(iter(properties))],
        },
        "annotations": annotations,
    }


_CALL_ENTRIES: tuple[tuple[str, str, str, dict[str, bool]], ...] = (
    (
        READ_TOOL,
        "Read with a tool",
        "Call a tool that only reads, by its id, and get its result.",
        {"readOnlyHint": True, "openWorldHint": True},
    ),
    (
        CALL,
        "Call a tool",
        "Call a tool that changes something but destroys nothing, by its id, and get its result.",
        {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True},
    ),
    (
        DESTROY,
        "Call a destructive tool",
        "Call a tool that may overwrite or delete something, by its id, and get its result.",
        {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    ),
)
"""Name, title, description and annotations of the tools that call others."""


def _call(name: str, title: str, description: str, annotations: dict[str, bool]) -> dict[str, Any]:
    return _entry(
        name,
        title,
        description,
        annotations,
        tool=_string("The tool's id, as the search has it."),
        arguments={
            "type": "object",
            "description": "The tool's own arguments.",
            "additionalProperties": True,
        },
    )


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _integer(description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "description": description}


def _strings(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "description": description}
