"""The results of MCP: tools as they are listed, answers of the meta tools, errors."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from toolscript import errors
from toolscript.app.argument_checks import signature
from toolscript.app.scoped_catalogue import KnownTool
from toolscript.app.searching import Found
from toolscript.codegen.api_definitions import list_entry
from toolscript.surfaces.mcp.meta_tools import marked
from toolscript.text.display import harmless, printable
from toolscript.text.wire_constants import CALLS
from toolscript.types import (
    SEPARATOR,
    Hit,
    SearchResult,
    split_tool_id,
)

MAX_ANSWER_CHARS = 8000
"""The length of descriptions, signatures or passages in one answer: some 2,000 tokens."""
MAX_DESCRIBED_CHARS = 48_000
"""Characters of definitions in one answer: a file takes the place of 50,000 in Claude Code."""
_MAX_PARAMETERS, _MIN_DESCRIPTION = 20_000, 3000
"""Characters of a definition that is too long by itself."""
_MAX_DESCRIPTION, _MAX_SIGNATURE, _MAX_PASSAGE, _MIN_TEXT = 240, 300, 400, 40
_MAX_RELATED = 2
"""Related tools of each kind."""
_MAX_MISSING, _MAX_WHY = 10, 200
"""How many servers that were not searched are named, and how long each reason may be."""


def described(tools: Iterable[KnownTool], limit: int = MAX_DESCRIBED_CHARS) -> dict[str, Any]:
    """Returns the definitions of tools for ``describe_tools``, as many as there is room for.

    One that is too long by itself is shortened; those for which there is no room are named.

    Args:
        tools: The tools.
        limit: The most characters that all definitions have; 0 for no limit.
    """
    shown, left, room = list[dict[str, Any]](), list[str](), limit
    for known in tools:
        entry = _describe(known)
        size = len(_dump(entry)) if limit else 0
        if size > limit:
            entry = _shorten(known, entry, limit, size)
            size = len(_dump(entry))
        if size <= room:
            room -= size
            shown.append(entry)
        else:
            left.append(known.spec.id)
    why = "there is no room for them in this answer; describe them by themselves"
    return {"tools": shown, **({"left_out": {"tools": left, "why": why}} if left else {})}


def _describe(known: KnownTool) -> dict[str, Any]:
    spec = known.spec
    facts = {"id": spec.id, "server": spec.server, **_use(known)}
    return {**facts, **list_entry(spec, spec.name), **marked(spec.name)}


def _shorten(known: KnownTool, entry: dict[str, Any], limit: int, size: int) -> dict[str, Any]:
    """Returns a definition with its parameters, and as much of its description as fits."""
    dropped = {"title", "description", "outputSchema", "annotations", "icons", "_meta"}
    note = f"This is a part of a definition of {size:,} characters."
    short = {"shortened": note, **{k: v for k, v in entry.items() if k not in dropped}}
    if len(_dump(short)) > limit - 2 * _MIN_DESCRIPTION:
        del short["inputSchema"]
        short["parameters"] = signature(known.spec.input_schema, _MAX_PARAMETERS)
    room = max(0, limit - len(_dump(short)) - 100) // 2  # a character may need an escape
    whole = known.spec.description
    return short | {"description": harmless(whole[:room]) + ("…" if len(whole) > room else "")}


def _use(known: KnownTool) -> dict[str, Any]:
    """Returns which of our tools calls a tool, and how its definition came to be accepted."""
    return {"call": CALLS[known.spec.tool_class], "trust": known.trust}


def seed_id(identifier: str) -> str:
    """Returns an id as the seed's wire has it: ``server:tool``."""
    return identifier.replace(SEPARATOR, ":", 1)


def tools_found(query: str, found: Found, *, mark: bool = False) -> dict[str, Any]:
    """Returns the answer of ``search_tools``; with ``mark`` each hit has its ``kind``.

    ``score`` is ``alpha * semantic_score + (1 - alpha) * graph_score``; ``alpha`` is
    1 if the graph has no score. A tool whose exact name was asked for keeps its score of 1.
    """
    result = found.result
    chars = MAX_ANSWER_CHARS // max(1, len(result.hits))
    hits: list[dict[str, Any]] = []
    for hit in result.hits:
        if hit.document.parent_id:
            score = round(hit.score, 4)
            scores = {"score": score, "fused": round(hit.fused, 4), "semantic_score": score}
            scores |= {"graph_score": 0}
            hits.append({"kind": "skill", **_skill(hit, chars), **scores})
        else:
            kind = {"kind": "tool"} if mark else {}
            name = hit.document.id
            hits.append({**kind, **_tool(hit, found.tools[name], chars)})
    meta = {"query": query, "alpha": result.alpha, "graph_edges": result.edges}
    return {"tools": hits, "meta": {**meta, **_write_degraded(result), **_not_searched(found)}}


def _tool(hit: Hit, tool: KnownTool, chars: int) -> dict[str, Any]:
    spec = tool.spec
    description = max(_MIN_TEXT, min(_MAX_DESCRIPTION, chars // 2))
    related = {
        kind: [
            {"id": seed_id(each.tool), "evidence": each.evidence} for each in tools[:_MAX_RELATED]
        ]
        for kind in ("before", "after", "needs")
        if hit.related and (tools := getattr(hit.related, kind))
    }
    return {
        "id": seed_id(spec.id),
        "name": spec.name,
        "server": spec.server,
        **_use(tool),
        **marked(spec.name),
        "description": printable(spec.description, description),
        "signature": signature(spec.input_schema, max(_MIN_TEXT, min(_MAX_SIGNATURE, chars // 3))),
        "score": round(hit.score, 4),
        "fused": round(hit.fused, 4),
        "semantic_score": round(hit.score if hit.own is None else hit.own, 4),
        "graph_score": round(hit.signals.get("graph", 0), 4),
        **({"related": related} if hit.related else {}),
    }


def skills_found(query: str, result: SearchResult) -> dict[str, Any]:
    """Returns the answer of ``search_skills``."""
    chars = MAX_ANSWER_CHARS // max(1, len(result.hits))
    rows = [{**_skill(hit, chars), "score": round(hit.score, 4)} for hit in result.hits]
    return {"skills": rows, "meta": {"query": query, **_write_degraded(result)}}


def _skill(hit: Hit, chars: int) -> dict[str, Any]:
    """Returns a skill with its best passage, in at most ``chars`` characters."""
    passage = hit.document
    heading = f"{passage.title}: " if passage.title else ""
    length = max(_MIN_TEXT, min(_MAX_PASSAGE, chars))
    return {
        "id": seed_id(passage.parent_id),
        "name": split_tool_id(passage.parent_id)[1],
        "passage": printable(f"{heading}{passage.description}", length),
    }


def _write_degraded(result: SearchResult) -> dict[str, Any]:
    return {"degraded": list(result.degraded)} if result.degraded else {}


def _not_searched(found: Found) -> dict[str, Any]:
    """Returns the servers that were not searched, and why, for a model to tell its user."""
    missing = found.missing
    if not missing:
        return {}
    rows = [
        {"server": each.name, "why": printable(each.obstacle, _MAX_WHY)}
        for each in missing[:_MAX_MISSING]
    ]
    more = len(missing) - len(rows)
    return {"not_searched": rows, **({"more_not_searched": more} if more else {})}


def tools_chosen(found: Found, names: Mapping[str, str]) -> dict[str, Any]:
    """Returns the answer of ``tool_search``: names as they are listed from now on, and scores."""
    chars = MAX_ANSWER_CHARS // max(1, len(found.hits))
    length = max(_MIN_TEXT, min(_MAX_DESCRIPTION, chars))
    return {
        "tools": [
            {
                "name": names[hit.document.id],
                "server": hit.document.server,
                **_use(found.tools[hit.document.id]),
                "score": round(hit.score, 4),
                "fused": round(hit.fused, 4),
                "description": printable(hit.document.description, length),
            }
            for hit in found.hits
        ],
        **_not_searched(found),
    }


def answer(value: dict[str, Any], *, structured: bool) -> dict[str, Any]:
    """Returns a result that is JSON, as text, and as structured content, too, if asked to."""
    return {**text(_dump(value)), **({"structuredContent": value} if structured else {})}


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def text(content: str) -> dict[str, Any]:
    """Returns a result that is one text."""
    return {"content": [{"type": "text", "text": content}]}


def failure(problem: errors.ToolscriptError) -> dict[str, Any]:
    """Returns an error as a result, which a model reads, and may be able to put right."""
    return {**text(str(problem)), "isError": True}
