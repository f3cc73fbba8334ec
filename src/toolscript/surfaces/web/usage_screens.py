"""Shows the use of tools: their calls, as they happen, and which go together."""

from typing import Any

import anyio.to_thread
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore
from toolscript.errors import InputError
from toolscript.graph.base import Edge, Stats
from toolscript.storage.activity_log import OUTCOMES, RecordedCall
from toolscript.surfaces.http import usage_routes
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.web.screens import Screens

SCREENS = Screens()


class ActivityScreen(Struct, frozen=True, kw_only=True):
    """Calls, the newest first."""

    calls: list[RecordedCall]
    names: dict[str, str]
    """The names that the owner has given to callers' tokens, by id."""
    next: int | None
    """The parameter ``before`` of older calls; None if there are none."""
    outcomes: tuple[str, ...] = OUTCOMES


@SCREENS.add("GET", "/activity", "activity.html")
async def activity(app: App, request: Request) -> Any:
    """The newest calls."""
    answer = await usage_routes.activity(app, request)
    return ActivityScreen(calls=answer.calls, names=await _names(request), next=answer.next)


async def _names(request: Request) -> dict[str, str]:
    """Returns the names of all tokens for the owner, and none for others."""
    if not grant_of(request).is_owner:
        return {}
    tokens: TokenStore = request.app.state.tokens
    known = await anyio.to_thread.run_sync(tokens.all)
    return {token.id: token.name for token in known if token.name}


class GraphScreen(Struct, frozen=True, kw_only=True):
    """The strongest edges."""

    stats: Stats | None
    edges: list[Edge]
    off: str = ""
    """Why nothing is learned."""


@SCREENS.add("GET", "/graph", "graph.html")
async def graph(app: App, request: Request) -> Any:
    """Which tools are used together."""
    try:
        answer = await usage_routes.graph(app, request)
    except InputError as problem:
        return GraphScreen(stats=None, edges=[], off=str(problem))
    return GraphScreen(stats=answer.stats, edges=answer.edges)
