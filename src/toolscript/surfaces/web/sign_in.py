"""Signs people in: whoever has a key gets a one-time link, exchanged for a session cookie."""

from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.config.settings import ServerSettings
from toolscript.errors import ToolscriptError
from toolscript.surfaces.server.authentication import Access, access_of
from toolscript.surfaces.server.error_answers import error_response, json_response
from toolscript.surfaces.server.page_sessions import (
    ENTER,
    PAGE,
    SESSION_S,
    PageSessions,
    cookie_name,
)
from toolscript.surfaces.web.rendering import Problem, rendered
from toolscript.surfaces.web.screens import Screens, redirect

SCREENS = Screens()
_ICON = f'<link rel="icon" href="{PAGE}/static/icon.svg">'
"""Without it a browser asks for ``/favicon.ico``, which does not exist."""
_USED = "this link was opened already, or is older than two minutes"


@SCREENS.add("POST", "/link", is_public=True)
async def create_link(_: App, request: Request) -> Any:
    """Returns a link for the holder of the token or key that was sent."""
    access = access_of(request)
    try:
        access.check("send the token that the page is to be opened with")
    except ToolscriptError as error:
        return error_response(error)
    path = f"{ENTER}?code={_sessions(request).link(access)}"
    server: ServerSettings = request.app.state.settings.server
    is_https = server.oauth or server.tls_cert is not None
    return json_response({"path": path, "origin": (is_https and server.public_url) or ""})


@SCREENS.add("POST", "/link/waiting", is_public=True)
async def check_link(_: App, request: Request) -> Any:
    """Returns whether a link was not opened yet."""
    code = (await request.body()).decode(errors="replace")
    return json_response({"isWaiting": _sessions(request).is_waiting(code)})


@SCREENS.add("GET", "/enter", is_public=True)
async def enter(app: App, request: Request) -> Any:
    """Exchange the code of a link for a cookie."""
    secret = _sessions(request).enter(request.query_params.get("code", ""))
    if secret is None:
        problem = Problem(error=_USED, type="AccessError", is_login=True)
        return await rendered(app, request, "problem.html", problem, HTTPStatus.FORBIDDEN)
    if request.headers.get("sec-fetch-site", "none") != "none":  # led here by a file
        # A redirection from another site would bring the browser here without its new cookie.
        refresh = {"refresh": f"0; url={PAGE}/"}
        answer = Response(_ICON, headers=refresh, media_type="text/html")
    else:
        answer = redirect("/")
    answer.set_cookie(
        cookie_name(request),
        secret,
        max_age=int(SESSION_S),
        path=PAGE,
        secure="https" in {request.url.scheme, request.headers.get("x-forwarded-proto")},
        httponly=True,
        samesite="strict",
    )
    return answer


@SCREENS.add("POST", "/leave", is_public=True)
async def leave(_: App, request: Request) -> Any:
    """End the session of the cookie."""
    name = cookie_name(request)
    _sessions(request).leave(request.cookies.get(name, ""))
    answer = redirect("/")
    answer.delete_cookie(name, path=PAGE, httponly=True, samesite="strict")
    return answer


def _sessions(request: Request) -> PageSessions[Access]:
    sessions: PageSessions[Access] = request.app.state.page_sessions
    return sessions
