"""Shows the results of a query with their reasons, under any settings."""

import time
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.codegen.api_definitions import list_entry
from toolscript.config.settings import OPTION
from toolscript.errors import RangeError, ToolscriptError
from toolscript.surfaces.http.request_input import parsed
from toolscript.surfaces.http.search_answers import SearchAnswer, ToolHit
from toolscript.surfaces.http.search_routes import SKILLS, answer_search
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.web.screens import Screens
from toolscript.text.token_estimate import estimated_tokens
from toolscript.types import SearchRequest, ToolSpec

SCREENS = Screens()
LIMIT = 10
"""The number of results if the address does not say."""
_SETTINGS = ("alpha", "threshold", "limit", "model", "profile")
_TEXTS = {"model", "profile"}
NO_MODEL = "none"
"""The value of ``model`` with which a search goes by words only."""


class View(Struct, frozen=True, kw_only=True):
    """The settings of one search, for this view only."""

    alpha: float
    threshold: float
    limit: int
    model: str = ""
    """The model that is loaded, or `NO_MODEL`; empty for the former."""
    profile: str = ""


class SearchScreen(Struct, frozen=True, kw_only=True, rename="camel"):
    """A search with everything that explains it."""

    query: str
    why: str
    skills: bool
    open: list[str]
    """The ids of the results whose explanations are shown."""
    view: View
    model: str | None
    profiles: list[str]
    tools: int | UnsetType = UNSET
    """Without a question: how many tools the caller may find."""
    servers: int | UnsetType = UNSET
    """Without a question: how many servers are configured, as far as the caller may know."""
    search: SearchAnswer | None = None
    ms: int = 0
    tokens: dict[str, int] = {}
    """The estimated cost of each tool's definition for a model that lists it, by id."""
    problem: str = ""
    """Why there is no answer."""
    adjusted: bool = False
    """Whether the address has settings."""


@SCREENS.add("GET", "/", "search.html")
async def search_lab(app: App, request: Request) -> Any:
    """Find tools, and see why."""
    catalogue = app.catalogue(grant_of(request))
    view, asked = _view(app, request), request.query_params
    model: Any = app.stats()["model"]
    answer = SearchScreen(
        query=asked.get("q", ""),
        why=asked.get("why", ""),
        skills=parsed(request, SKILLS),
        open=asked.getlist("open")[:LIMIT],
        view=view,
        model=model,
        profiles=sorted(app.permissions.written[1]) if grant_of(request).is_owner else [],
        adjusted=any(name in asked for name in _SETTINGS),
    )
    if not answer.query:
        # Counting them takes longer than a search.
        servers = catalogue.servers()
        return replace(answer, tools=sum(each.tools for each in servers), servers=len(servers))
    began = time.perf_counter()
    try:
        found = await answer_search(app, _request(request, answer, view))
    except ToolscriptError as problem:
        return replace(answer, problem=str(problem))
    ms = round((time.perf_counter() - began) * 1000)
    return replace(
        answer,
        search=found,
        ms=ms,
        tokens=prices(catalogue, [e.tool_id for e in found.results if isinstance(e, ToolHit)]),
    )


def _view(app: App, request: Request) -> View:
    """Returns the settings in the address; the application's if it has none."""
    values: dict[str, Any] = {}
    for name in _SETTINGS:
        text = request.query_params.get(name)
        if text is not None:
            values[name] = text if name in _TEXTS else OPTION[name].parse(text, name)
    profile = app.profile
    default = View(alpha=profile.weights["semantic"], threshold=profile.threshold, limit=LIMIT)
    return replace(default, **values)


def _request(request: Request, answer: SearchScreen, view: View) -> SearchRequest:
    grant = grant_of(request)
    if view.profile:
        if view.profile not in answer.profiles:
            raise RangeError(f"no profile is called {view.profile[:60]!r}")
        grant = replace(grant, profiles=(*grant.profiles, view.profile))
    if view.model not in {"", NO_MODEL, answer.model}:
        raise RangeError(
            f"model is {view.model[:60]!r}, and this gateway has loaded "
            f"{answer.model or 'none'}; choose that, or {NO_MODEL} to search by words only"
        )
    return SearchRequest(
        text=answer.query,
        alpha=view.alpha,
        words_only=view.model == NO_MODEL,
        threshold=view.threshold,
        limit=view.limit,
        grant=grant,
        explain=True,
        evidence=tuple(answer.open),
        why=answer.why,
        skills=answer.skills,
    )


def prices(catalogue: ScopedCatalogue, identifiers: list[str]) -> dict[str, int]:
    """Returns the cost of listing each tool, in estimated tokens, by id."""
    known = catalogue.tools_by_id(identifiers)
    return {name: price(tool.spec) for name, tool in known.items()}


def price(spec: ToolSpec) -> int:
    """Returns the cost of a tool's definition for a model that lists it, in estimated tokens."""
    return estimated_tokens(msgspec.json.encode(list_entry(spec, spec.id)))
