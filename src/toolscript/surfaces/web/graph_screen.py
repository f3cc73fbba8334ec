"""Shows which tools are used together."""

from typing import Any

from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.errors import InputError
from toolscript.graph.base import Edge, Stats
from toolscript.surfaces.http.graph_routes import graph as graph_answer
from toolscript.surfaces.web.screens import Screens

SCREENS = Screens()


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
        answer = await graph_answer(app, request)
    except InputError as problem:
        return GraphScreen(stats=None, edges=[], off=str(problem))
    return GraphScreen(stats=answer.stats, edges=answer.edges)
