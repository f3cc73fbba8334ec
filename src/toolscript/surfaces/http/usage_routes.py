"""The use of tools: the log of calls, and the graph of tools used together."""

import dataclasses
from typing import Any

import anyio.to_thread
from msgspec import UNSET, convert
from msgspec.structs import replace
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import Option
from toolscript.errors import InputError, RangeError
from toolscript.graph.graph_files import imported
from toolscript.graph.learning import Learning
from toolscript.graph.related import relations
from toolscript.storage.activity_log import OUTCOMES, ActivityPage, ActivityQuery
from toolscript.surfaces.http.answers import (
    ActivityAnswer,
    GraphAnswer,
    GraphCleared,
    GraphImported,
    RefusalsAnswer,
    RelatedAnswer,
)
from toolscript.surfaces.http.openapi import REQUIRED, Endpoints
from toolscript.surfaces.http.request_input import json_object, parsed, required
from toolscript.surfaces.server.audit_log import Refusals
from toolscript.surfaces.server.authentication import Access, access_of, grant_of
from toolscript.types import Grant

ENDPOINTS = Endpoints()
_LIMIT = Option("limit", int, 50, "At most this many calls.", bounds=(1, 1000))
_OLDER = "Only calls older than the one with this id."
_BEFORE = Option("before", int, None, _OLDER, bounds=(1, 2**63 - 1))
_TOOL = Option("tool", str, "", "Only calls of tools whose name matches this pattern.")
_WHO = Option("who", str, "", "Only calls of this caller.")
_OUTCOME = Option("outcome", str, None, "Only calls with this outcome.", choices=OUTCOMES)
_EDGES = Option("limit", int, 50, "At most this many edges.", bounds=(1, 1000))
_ID = Option("tool", str, REQUIRED, "Its id.")
_CHANGE = "change what was learned: it is everybody's"
_MAX_PATTERN = 200
"""No name in the log is longer."""


@ENDPOINTS.add("GET", "/activity", ActivityAnswer, _LIMIT, _BEFORE, _TOOL, _WHO, _OUTCOME)
async def activity(app: App, request: Request) -> Any:
    """Which tools were called, by whom, and what came of it."""
    access = access_of(request)
    query = ActivityQuery(
        limit=parsed(request, _LIMIT),
        before=parsed(request, _BEFORE),
        tool=parsed(request, _TOOL) or None,
        who=parsed(request, _WHO) or None,
        outcome=parsed(request, _OUTCOME),
    )
    if len(query.tool or "") > _MAX_PATTERN:
        raise RangeError(f"tool has more than {_MAX_PATTERN} characters, as no tool's name has")
    page = await recorded(app, access, query)
    answer = ActivityAnswer(calls=page.calls, next=page.calls[-1].id if page.has_more else None)
    if not access.grant.is_owner:
        return answer
    refusals: Refusals | None = getattr(request.app.state, "refusals", None)
    counted = refusals and convert(refusals, RefusalsAnswer, from_attributes=True)
    return replace(
        answer,
        dropped=app.activity.dropped,
        refusals=counted or UNSET,
    )


async def recorded(app: App, access: Access, query: ActivityQuery) -> ActivityPage:
    """Returns the recorded calls that a query asks for; others' calls for the owner only."""
    is_others = not access.grant.is_owner and query.who not in {None, access.holder}
    if is_others:
        return ActivityPage([], has_more=False)
    if not access.grant.is_owner:
        query = dataclasses.replace(query, who=access.holder)
    return await anyio.to_thread.run_sync(app.activity.read, query)


@ENDPOINTS.add("GET", "/graph", GraphAnswer, _EDGES)
async def graph(app: App, request: Request) -> Any:
    """What is used together: how much is known, and the strongest edges."""
    limit = parsed(request, _EDGES)
    learning = _learning(app)
    grant = app.catalogue(grant_of(request)).grant
    denied = app.permissions.denied(grant)

    def may_see(tool: str) -> bool:
        return tool not in denied and grant.allows(tool)

    allows = None if grant.is_everything and not denied else may_see
    edges = await anyio.to_thread.run_sync(learning.graph.strongest, limit, allows)
    return GraphAnswer(stats=learning.graph.stats() if grant.is_whole else None, edges=edges)


@ENDPOINTS.add("GET", "/graph/related", RelatedAnswer, _ID)
async def related(app: App, request: Request) -> Any:
    """What goes with one tool."""
    name = required(request, "tool", "server__tool")
    return related_to(app, grant_of(request), name, _EDGES.default)


def related_to(app: App, grant: Grant, name: str, limit: int) -> RelatedAnswer:
    """Returns what goes with a tool, at most ``limit`` tools of each kind.

    Raises `UnknownNameError` for a tool that the caller does not know, and `InputError` if
    nothing is learned.
    """
    catalogue = app.catalogue(grant)
    tool = catalogue.tool(name).id
    known = {each.id for each in catalogue.tools()}
    found = relations(_learning(app).graph, tool, known.__contains__, limit=limit)
    return RelatedAnswer(tool_id=tool, before=found.before, after=found.after, needs=found.needs)


@ENDPOINTS.add("POST", "/graph/import", GraphImported, body=dict, owners=_CHANGE)
async def import_graph(app: App, request: Request) -> Any:
    """Learn from templates and logs."""
    learning = _learning(app)
    given = imported(await json_object(request))
    return GraphImported(**await anyio.to_thread.run_sync(learning.import_known, given))


@ENDPOINTS.add("POST", "/graph/clear", GraphCleared, body=dict, owners=_CHANGE)
async def clear_graph(app: App, _: Request) -> Any:
    """Forget everything learned."""
    learning = _learning(app)
    stats = learning.graph.stats()
    await anyio.to_thread.run_sync(learning.clear)
    return GraphCleared(edges=stats.edges, calls=stats.calls)


def _learning(app: App) -> Learning:
    if app.learning is None:
        advice = "TOOLSCRIPT_NO_LEARNING is set; unset it and restart"
        raise InputError(f"nothing is learned: {advice}")
    return app.learning
