"""How the HTTP door spells things: answers as JSON objects, errors as statuses."""

from typing import Any

import msgspec

from toolscript.app.application import DownloadState, Health
from toolscript.codegen.typed_clients import Module
from toolscript.skills.scanner import Skill
from toolscript.surfaces.mcp.meta_tools import marked
from toolscript.surfaces.server.wire import error
from toolscript.text import printable
from toolscript.types import (
    Explanation,
    Hit,
    MissExplanation,
    SearchResult,
    ServerStatus,
    ToolSpec,
    split_tool_id,
)


def hit(found: Hit) -> dict[str, Any]:
    """One row of ``results``."""
    return {
        "toolId": found.document.id,
        "serverName": found.document.server,
        "toolName": found.document.name,
        **marked(found.document.name),
        "confidence": found.score,
        "reason": found.reason,
        "description": found.document.description,
        "signals": found.signals,
        **({"explanation": explanation(found.explanation)} if found.explanation else {}),
        **({"related": msgspec.to_builtins(found.related)} if found.related else {}),
    }


def answered(found: Hit, mark: bool) -> dict[str, Any]:  # noqa: FBT001 - a kind of list
    """A row of ``results``: a tool or a skill, ``mark`` to say which."""
    row = skill_hit(found) if found.document.parent_id else hit(found)
    return {"kind": "skill" if found.document.parent_id else "tool", **row} if mark else row


def skill_hit(found: Hit) -> dict[str, Any]:
    """One row of ``results`` that is a skill, with the passage that decided."""
    return {
        "skillId": found.document.parent_id,
        "name": split_tool_id(found.document.parent_id)[1],
        "confidence": found.score,
        "reason": found.reason,
        "passage": {"heading": found.document.title, "text": found.document.description},
        "signals": found.signals,
        **({"explanation": explanation(found.explanation)} if found.explanation else {}),
    }


def skill(found: Skill, *, whole: bool) -> dict[str, Any]:
    """One row of ``/skills``; where the file lies is told to who may see everything."""
    return {
        "skillId": found.id,
        "name": found.name,
        "description": found.summary,
        "passages": len(found.passages),
        **({"file": printable(found.file)} if whole else {}),
    }


def explanation(found: Explanation) -> dict[str, Any]:
    """How a confidence came about: the shares of the mean, then what changed it."""
    return {
        "fused": found.fused,
        "shares": [msgspec.to_builtins(share) for share in found.shares],
        "steps": [msgspec.to_builtins(step) for step in found.steps],
    }


def whereabouts(found: MissExplanation) -> dict[str, Any]:
    """Where the tool that was asked after ended up."""
    return {
        "toolId": found.id,
        "verdict": found.verdict,
        "rank": found.rank,
        "hit": hit(found.hit) if found.hit else None,
    }


def result(query: str, found: SearchResult, *, mark: bool = False) -> dict[str, Any]:
    """The answer of ``/search`` and ``/skills/search``; with ``mark`` each says what it is."""
    return {
        "query": query,
        "results": [answered(each, mark) for each in found.hits],
        "totalResults": len(found.hits),
        "threshold": found.threshold,
        "limit": found.limit,
        "below": answered(found.below, mark) if found.below else None,
        "degraded": list(found.degraded),
        **({"why": whereabouts(found.why)} if found.why else {}),
    }


def tool(spec: ToolSpec) -> dict[str, Any]:
    """One row of ``/tools``."""
    return {
        "toolId": spec.id,
        "serverName": spec.server,
        "toolName": spec.name,
        **marked(spec.name),
        "title": spec.title,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "outputSchema": spec.output_schema,
        "annotations": spec.annotations,
    }


def module(made: Module) -> dict[str, Any]:
    """A typed client as JSON: its text, a call of the first tool asked for, its tools' ids."""
    return {"module": made.text.decode(), "usage": made.usage, "tools": made.tools}


def server(status: ServerStatus) -> dict[str, Any]:
    """One row of ``/servers``."""
    return {name: getattr(status, name) for name in ServerStatus.__struct_fields__}


def health(state: Health, pid: int, version: str) -> dict[str, Any]:
    """The answer of ``/health``; with an error's fields once a background task has died."""
    alive = "ready" if state.ready else "starting"
    return {
        **(error(state.failure) if state.failure else {}),
        "status": "failed" if state.failure else alive,
        "version": version,
        "pid": pid,
        "tools": state.tools,
        "toolsWaiting": state.waiting,
        "passagesWaiting": state.passages_waiting,
        "waitingFor": list(state.waiting_for),
        "download": _download(state.download) if state.download else None,
        "configuration": state.config,
        "configurationProblem": state.config_problem,
        "tasks": dict(state.tasks),
    }


def _download(state: DownloadState) -> dict[str, Any]:
    return {
        "model": state.model,
        "doneBytes": state.done_bytes,
        "totalBytes": state.total_bytes,
    }
