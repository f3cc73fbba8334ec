"""The searches: a request becomes a question, and what was found an answer."""

from dataclasses import replace as changed
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.searching import Found
from toolscript.codegen.api_definitions import FORMATS, Format
from toolscript.config.settings import MAX_QUERY_CHARS, OPTION, Option
from toolscript.errors import QueryError, RangeError
from toolscript.graph.session_history import SessionHistory
from toolscript.surfaces.http.client_sessions import session_of
from toolscript.surfaces.http.openapi import REQUIRED, Endpoints
from toolscript.surfaces.http.request_input import parsed, required
from toolscript.surfaces.http.search_answers import SearchAnswer, search_answer
from toolscript.surfaces.server.authentication import grant_of
from toolscript.types import SearchRequest

ENDPOINTS = Endpoints()
_TOOL = Option("q", str, REQUIRED, f"What the tool should do, in {MAX_QUERY_CHARS} characters.")
_SKILL = Option("q", str, REQUIRED, "What is to be done.")
_EXPLAIN = Option("explain", bool, default=False, help="Say how each confidence came about.")
_SETTINGS = [changed(OPTION[n], default=None) for n in ("limit", "threshold", "alpha", "steps")]
"""Without one in a request, that of the application counts."""
_COMMON = (*_SETTINGS, _EXPLAIN)
_SERVER = Option("server", list, None, "Only this server's tools; may be repeated.")
_WHY = Option("why", str, "", "A tool's id or name: say where it ended up.")
SKILLS = Option("skills", bool, default=False, help="Rank skills among the tools.")
_FORMAT = Option("format", str, None, "Add definitions as this API takes them.", choices=FORMATS)
_MAX_SERVERS = 100


@ENDPOINTS.add("GET", "/search", SearchAnswer, _TOOL, *_COMMON, _SERVER, _WHY, SKILLS, _FORMAT)
async def search(app: App, request: Request) -> Any:
    """Find the tools that do what a sentence says."""
    query = required(request, "q", "what+the+tool+should+do", QueryError)
    asked = search_request(query, request)
    form = parsed(request, _FORMAT)
    return await answer_search(app, asked, session_of(request).history, form)


@ENDPOINTS.add("GET", "/skills/search", SearchAnswer, _SKILL, *_COMMON)
async def search_skills(app: App, request: Request) -> Any:
    """Find the skills that say how something is done."""
    query = required(request, "q", "how+to+do+it", QueryError)
    result = await app.skills(grant_of(request)).search(_common(query, request))
    return search_answer(query, Found(result))


async def answer_search(
    app: App,
    search: SearchRequest,
    history: SessionHistory | None = None,
    form: Format | None = None,
) -> SearchAnswer:
    """Returns the answer to a search of tools; raises the errors of `Searches.search`.

    Args:
        app: The application that searches.
        search: The request.
        history: The session that asks; None records the search in none.
        form: The form of the tools' definitions; None leaves them out.
    """
    found = await app.search(search, history)
    return search_answer(search.text, found, mark=search.skills, form=form)


def search_request(query: str, request: Request) -> SearchRequest:
    """Returns a search of tools with the parameters of a request."""
    servers = tuple(request.query_params.getlist("server"))
    if len(servers) > _MAX_SERVERS:
        raise RangeError(f"server is given {len(servers)} times; at most {_MAX_SERVERS} are")
    return replace(
        _common(query, request),
        servers=servers,
        why=parsed(request, _WHY),
        skills=parsed(request, SKILLS),
    )


def _common(query: str, request: Request) -> SearchRequest:
    """Returns what searches of tools and of skills have in common."""
    return SearchRequest(
        text=query,
        grant=grant_of(request),
        explain=parsed(request, _EXPLAIN),
        **{each.name: parsed(request, each) for each in _SETTINGS},
    )
