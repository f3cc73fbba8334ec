"""Names and words on the wire, for both of its sides. Imports nothing: commands start with it."""

from typing import Literal, TypeAlias

ToolClass: TypeAlias = Literal["read", "write", "destructive"]
"""The effects that a call of a tool may have at most: see `ToolSpec.tool_class`."""
TOOL_CLASSES: tuple[ToolClass, ...] = ("read", "write", "destructive")
PersonsAnswer: TypeAlias = Literal["once", "session", "server", "always", "no"]
"""The answer of a person who is asked about a call."""
ANSWERS: tuple[PersonsAnswer, ...] = ("once", "session", "server", "always", "no")

SEARCH, DESCRIBE, FIND = "search_tools", "describe_tools", "tool_search"
READ_TOOL, CALL, DESTROY = "read_tool", "call_tool", "call_destructive_tool"
MORE, RUN = "read_result", "run_script"
SKILLS, READ = "search_skills", "read_skill"
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
"""The extension of MCP for skills that servers serve (SEP-2640)."""
CALLS: dict[ToolClass, str] = {"read": READ_TOOL, "write": CALL, "destructive": DESTROY}
"""The meta tool that calls the tools of a class."""
SAFE_META_TOOLS = frozenset({SEARCH, DESCRIBE, FIND, MORE, SKILLS, READ})
"""The meta tools that change nothing, so that a call may be repeated."""
META_TOOLS = SAFE_META_TOOLS.union(CALLS.values(), {RUN})
"""The tools that toolscript itself offers to models.

A server's tool of such a name is marked; it cannot replace ours, as its id has its server.
"""
TASKS, TASK = "io.modelcontextprotocol/tasks", "task"
"""The extension of MCP for long calls (SEP-2663), and the type of a result that names a task."""
APPS = "io.modelcontextprotocol/ui"
"""The extension of MCP for pages that clients show (SEP-1865)."""
PAGE_TYPE, PAGE_SCHEME = "text/html;profile=mcp-app", "ui://"
INTERIM_RESULTS = frozenset({"input_required", TASK})
"""The types of results after which a call goes on."""
OWN_META = ("toolscript/", "io.modelcontextprotocol/serverInfo")
"""The beginnings of keys of ``_meta`` that only toolscript may write."""
OWN_ADDRESSES = ("toolscript:", "skill://skills/")
"""The beginnings of URIs that only toolscript may serve."""
ANSWER_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "/health": {"status": str, "tools": int, "waitingFor": list},
    "/search": {"results": list, "degraded": list, "threshold": (int, float)},
    "/servers": {"servers": list},
    "/review": {"held": list},
    "/pending": {"pending": list},
    "/permissions": {"rules": list, "remembered": list, "outdated": list},
    "/skills": {"skills": list, "problems": list, "warnings": list},
    "/skills/search": {"results": list, "degraded": list, "threshold": (int, float)},
    "/activity": {"calls": list},
    "/graph": {"edges": list},
    "/graph/related": {"before": list, "after": list, "needs": list},
    "/tools": {"tools": list},
    "/runtime/tools.ts": {"module": str, "usage": str},
    "/runtime/tools.py": {"module": str, "usage": str},
}
"""The fields by which an answer is known as a gateway's: any program may answer at an address."""

REPAIRED = "repaired by the configuration; its server calls it"
"""The words before a repaired tool's name as its server has it."""
