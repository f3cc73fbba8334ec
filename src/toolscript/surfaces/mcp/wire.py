"""How the MCP door spells things: tools, answers to a search, errors."""

import json
from collections.abc import Mapping
from typing import Any

from toolscript import errors
from toolscript.app.argument_checks import signature
from toolscript.surfaces.mcp.meta_tools import marked
from toolscript.text import printable
from toolscript.types import SEPARATOR, Hit, Relations, SearchResult, ToolSpec, split_tool_id

MAX_ANSWER_CHARS = 8000
"""Of what a search says about the tools it found: some 2,000 tokens."""
_DESCRIPTION, _SIGNATURE, _PASSAGE, _LEAST = 240, 300, 400, 40
_RELATED = 2
"""Of each kind of related tools."""


def tool(spec: ToolSpec, name: str) -> dict[str, Any]:
    """A tool of a server's as MCP lists it, under the name that models see."""
    entry = {
        "name": name,
        "title": spec.title or None,
        "description": spec.description or None,
        "inputSchema": spec.input_schema or {"type": "object"},
        "outputSchema": spec.output_schema,
        "annotations": spec.annotations,
    }
    return {key: value for key, value in entry.items() if value is not None}


def described(spec: ToolSpec) -> dict[str, Any]:
    """The same for ``describe_tools``, with the id that a search gives it."""
    return {"id": spelled(spec.id), **tool(spec, spec.name), **marked(spec.name)}


def spelled(identifier: str) -> str:
    """An id as the seed's wire has it: ``server:tool``."""
    return identifier.replace(SEPARATOR, ":", 1)


def found(
    query: str, result: SearchResult, tools: Mapping[str, ToolSpec], *, mark: bool = False
) -> dict[str, Any]:
    """The answer of ``search_tools``; with ``mark``, which of them are skills.

    ``score`` is ``alpha * semantic_score + (1 - alpha) * graph_score``; ``alpha`` is
    1 where the graph has nothing to say. A tool whose exact name was asked for
    keeps its score of 1, one that a template connects with the context at least its
    ``semantic_score``, and one that another ``needed`` has that one's, less a little.
    """
    room = MAX_ANSWER_CHARS // max(1, len(result.hits))
    return {
        "tools": [_tool_or_skill(hit, tools, room, mark) for hit in result.hits],
        "meta": {
            "query": query,
            "alpha": result.alpha,
            "graph_edges": result.edges,
            **({"degraded": list(result.degraded)} if result.degraded else {}),
        },
    }


def _tool_or_skill(
    hit: Hit,
    tools: Mapping[str, ToolSpec],
    room: int,
    mark: bool,  # noqa: FBT001 - a kind of list
) -> dict[str, Any]:
    if hit.document.parent_id:
        score = round(hit.score, 4)
        scores = {"score": score, "semantic_score": score, "graph_score": 0}
        return {"kind": "skill", **skill(hit, room), **scores}
    return {**({"kind": "tool"} if mark else {}), **_hit(hit, tools[hit.document.id], room)}


def skill(hit: Hit, room: int) -> dict[str, Any]:
    """A skill with the passage that decided, in ``room`` characters."""
    passage = hit.document
    said = f"{passage.title}: {passage.description}" if passage.title else passage.description
    return {
        "id": spelled(passage.parent_id),
        "name": split_tool_id(passage.parent_id)[1],
        "passage": printable(said, max(_LEAST, min(_PASSAGE, room))),
    }


def skills(query: str, result: SearchResult) -> dict[str, Any]:
    """The answer of ``search_skills``."""
    room = MAX_ANSWER_CHARS // max(1, len(result.hits))
    degraded = {"degraded": list(result.degraded)} if result.degraded else {}
    rows = [{**skill(hit, room), "score": round(hit.score, 4)} for hit in result.hits]
    return {"skills": rows, "meta": {"query": query, **degraded}}


def page(text: str) -> dict[str, Any]:
    """The answer of ``read_skill``: its text as it is."""
    return {"content": [{"type": "text", "text": text}]}


def _hit(hit: Hit, spec: ToolSpec, room: int) -> dict[str, Any]:
    about = max(_LEAST, min(_DESCRIPTION, room // 2))
    takes = max(_LEAST, min(_SIGNATURE, room // 3))
    return {
        "id": spelled(spec.id),
        "name": spec.name,
        "server": spec.server,
        **marked(spec.name),
        "description": printable(spec.description, about),
        "signature": signature(spec.input_schema, takes),
        "score": round(hit.score, 4),
        "semantic_score": round(hit.score if hit.own is None else hit.own, 4),
        "graph_score": round(hit.signals.get("graph", 0), 4),
        **({"related": _related(hit.related)} if hit.related else {}),
    }


def _related(found: Relations) -> dict[str, Any]:
    """What goes with a tool: the best of each kind, with what says so."""
    kinds = {"before": found.before, "after": found.after, "needs": found.needs}
    return {
        kind: [{"id": spelled(each.tool), "evidence": each.evidence} for each in tools[:_RELATED]]
        for kind, tools in kinds.items()
        if tools
    }


def chosen(result: SearchResult, names: Mapping[str, str]) -> dict[str, Any]:
    """The answer of ``tool_search``: names, as they are listed from now on, with scores."""
    room = MAX_ANSWER_CHARS // max(1, len(result.hits))
    about = max(_LEAST, min(_DESCRIPTION, room))
    return {
        "tools": [
            {
                "name": names[hit.document.id],
                "score": round(hit.score, 4),
                "description": printable(hit.document.description, about),
            }
            for hit in result.hits
        ]
    }


def answer(value: dict[str, Any]) -> dict[str, Any]:
    """A result of ours: for programs, and as text for models."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return {"content": [{"type": "text", "text": text}], "structuredContent": value}


def failure(problem: errors.ToolscriptError) -> dict[str, Any]:
    """An error that a model should read, and may be able to put right."""
    return {"content": [{"type": "text", "text": str(problem)}], "isError": True}
