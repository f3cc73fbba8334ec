"""The graph of tools used together: to look at, to fill, to clear."""

from typing import Any

import anyio.to_thread
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import Option
from toolscript.errors import InputError
from toolscript.graph.graph_files import imported
from toolscript.graph.learning import Learning
from toolscript.graph.related import relations
from toolscript.surfaces.http.answers import GraphAnswer, GraphCleared, GraphImported, RelatedAnswer
from toolscript.surfaces.http.openapi import REQUIRED, Endpoints
from toolscript.surfaces.http.request_input import json_object, parsed, required
from toolscript.surfaces.server.authentication import grant_of
from toolscript.types import Grant

ENDPOINTS = Endpoints()
_LIMIT = Option("limit", int, 50, "At most this many edges.", bounds=(1, 1000))
_TOOL = Option("tool", str, REQUIRED, "Its id.")
_CHANGE = "change what was learned: it is everybody's"


@ENDPOINTS.add("GET", "/graph", GraphAnswer, _LIMIT)
async def graph(app: App, request: Request) -> Any:
    """What is used together: how much is known, and the strongest edges."""
    limit = parsed(request, _LIMIT)
    learning = _learning(app)
    grant = app.catalogue(grant_of(request)).grant
    denied = app.permissions.denied(grant)

    def may_see(tool: str) -> bool:
        return tool not in denied and grant.allows(tool)

    allows = None if grant.is_everything and not denied else may_see
    edges = await anyio.to_thread.run_sync(learning.graph.strongest, limit, allows)
    return GraphAnswer(stats=learning.graph.stats() if grant.is_whole else None, edges=edges)


@ENDPOINTS.add("GET", "/graph/related", RelatedAnswer, _TOOL)
async def related(app: App, request: Request) -> Any:
    """What goes with one tool."""
    name = required(request, "tool", "server__tool")
    return related_to(app, grant_of(request), name, _LIMIT.default)


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
