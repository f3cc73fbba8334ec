"""The tools that toolscript itself offers to models, as MCP lists them."""

from collections.abc import Iterable
from typing import Any

from toolscript.retrieval.profiles import SEARCH_SKILLS, SEARCH_TOOLS, TOOL_SEARCH
from toolscript.text.display import first_lines, printable
from toolscript.text.names import name_warning
from toolscript.text.wire_constants import (
    CALL,
    CALLS,
    DESCRIBE,
    DESTROY,
    FIND,
    META_TOOLS,
    MORE,
    READ,
    READ_TOOL,
    RUN,
    SEARCH,
    SKILLS,
)

MAX_LIMIT = 100
MAX_DESCRIBED = 20
_MAX_SERVERS, _MAX_SUMMARY = 30, 300
_READS = {"readOnlyHint": True}
_ALWAYS_LOADED = {"anthropic/alwaysLoad": True}
"""Claude Code defers the tools of MCP servers behind a search of its own, but not such ones."""
_MAX_CHARS, _CLIENT_CHARS, _MAX_CLIENT_CHARS = "anthropic/maxResultSizeChars", 50_000, 500_000
"""In place of a longer result Claude Code shows a model the name of a file with it; a tool's entry
may say how long one is, up to a bound."""
_TEXT = {"type": "string"}
_QUERY = "The action and the object, such as 'append rows to a sheet', or a tool's name."
_INSTRUCTIONS = {
    "search": (
        "They are not listed: whenever a task needs something that none of your tools does, "
        "search first: search_tools takes the action and the object. Then call what was found "
        "with the tool in brackets."
    ),
    "two-phase": (
        "They are not listed: find those for the task with tool_search first, by the action and "
        "the object; then they are listed."
    ),
    "all": (
        "They are listed as server__tool. A client with few tools of its own should use "
        "/mcp/search instead, one that searches tools itself this."
    ),
}
SKILL_TOOLS = {SKILLS, READ}
OFFERED = {
    "search": {SEARCH, DESCRIBE, *CALLS.values(), RUN, MORE, *SKILL_TOOLS},
    "two-phase": {FIND, *CALLS.values(), RUN, MORE},
    "all": {RUN, MORE, *SKILL_TOOLS},
}
"""The meta tools of each exposure."""


def summary(servers: Iterable[str]) -> str:
    """Returns what can be searched, on one line: ``the tools of files, git``.

    It has no numbers and says nothing about states: clients cache what it is part of, and it is
    told before a server is started.
    """
    names = sorted(printable(name, 40) for name in servers)
    listed = first_lines(names, _MAX_SERVERS, "{} more servers")
    return f"the tools of {', '.join(listed)}" if listed else "the tools of the user's servers"


def marked(name: str) -> dict[str, str]:
    """Returns the field ``warning`` of an answer about a tool, where there is a warning."""
    warning = name_warning(name, META_TOOLS)
    return {"warning": warning} if warning else {}


def instructions(exposure: str, tools: str) -> str:
    """Returns what `initialize` tells a model of this server, in at most 600 characters.

    ``tools`` is the `summary` of what can be searched.
    """
    # The names come first: Codex, for one, shows a model no more than 250 characters.
    return f"Behind this server are {printable(tools, _MAX_SUMMARY)}. {_INSTRUCTIONS[exposure]}"


def meta_tools(tools: str, *, has_skills: bool) -> dict[str, dict[str, Any]]:
    """Returns every meta tool by name, as MCP lists it.

    ``tools`` is the `summary` of what can be searched, ``has_skills`` whether there are skills.
    """
    skills = {"include_skills": _flag("Also skills.")} if has_skills else {}
    detail = _flag("JSON with all scores.")
    entries = (
        _entry(
            FIND,
            f"Search for relevant tools based on your task, among {tools}. Those found are listed "
            "next; if you do not see them, call each with the tool in brackets.",
            query=_string("Such as 'read a file'."),
            max_tools=_integer(TOOL_SEARCH),
            detail=detail,
        ),
        _entry(
            SEARCH,
            f"Find tools by what they should do, among {tools}. Search before you say that you "
            "cannot do something; then call what was found with the tool in brackets.",
            query=_string(_QUERY),
            limit=_integer(SEARCH_TOOLS),
            context_tools={
                "type": "array",
                "items": _TEXT,
                "description": "Ids of used tools, [] for none. Default: session's.",
            },
            detail=detail,
            **skills,
        ),
        _entry(
            DESCRIBE,
            "The whole descriptions and schemas of tools, if a signature is not enough.",
            tools={"type": "array", "items": _TEXT, "maxItems": MAX_DESCRIBED},
        ),
        _call(READ_TOOL, "Call a tool that only reads.", readOnlyHint=True),
        _call(
            CALL,
            "Call a tool that changes something but destroys nothing.",
            destructiveHint=False,
        ),
        _call(
            DESTROY,
            "Call a tool of any kind, also one that overwrites or deletes.",
            destructiveHint=True,
        ),
        _entry(
            RUN,
            "Run a Python script that calls tools, and read only its last expression and prints. "
            "What a search names server__tool is: await tools.server.tool(parameter=value). Also "
            "asyncio.gather, await search(query), await result(handle).",
            {"destructiveHint": True},
            script=_TEXT,
        ),
        _entry(
            MORE,
            "Read more of a result that was too long.",
            handle=_TEXT,
            lines=_string("As '61-120'."),
            grep=_string("A text in the lines."),
            query=_string("JMESPath, as 'rows[10:20].name'."),
        ),
        _entry(
            SKILLS,
            f"Find instructions for a task, such as 'fill in a PDF form'; read one with {READ}.",
            query=_TEXT,
            limit=_integer(SEARCH_SKILLS),
            detail=detail,
        ),
        _entry(
            READ,
            "The text of a skill, or of a file that it names.",
            skill=_TEXT,
            file=_TEXT,
        ),
    )
    return {entry["name"]: entry for entry in entries}


def allow_long_results(entry: dict[str, Any], limit: int) -> dict[str, Any]:
    """Returns the entry of a tool, which tells clients of results that are longer than usual.

    Args:
        entry: An element of ``tools/list``.
        limit: The most characters that a result of the tool has.
    """
    if limit <= _CLIENT_CHARS:
        return entry
    meta = {**entry.get("_meta", {}), _MAX_CHARS: min(limit, _MAX_CLIENT_CHARS)}
    return {**entry, "_meta": meta}


def _entry(
    name: str,
    description: str,
    annotations: dict[str, bool] = _READS,
    **properties: dict[str, Any],
) -> dict[str, Any]:
    """Returns a tool whose first parameter is the one that is required."""
    return {
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": [next(iter(properties))],
        },
        "annotations": annotations,
        "_meta": _ALWAYS_LOADED,
    }


def _call(name: str, description: str, **annotations: bool) -> dict[str, Any]:
    called = {"tool": _string("Its id."), "arguments": {"type": "object"}}
    return _entry(name, description, annotations, **called)


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def _integer(default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": default}


SCHEMAS = {
    has_skills: {
        name: tool["inputSchema"] for name, tool in meta_tools("", has_skills=has_skills).items()
    }
    for has_skills in (False, True)
}
"""The schemas of the meta tools, by whether there are skills."""
