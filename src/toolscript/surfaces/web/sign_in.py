"""Signs people in: whoever has a key gets a one-time link, exchanged for a session cookie."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from toolscript.app.application import App
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

_ICON = f'<link rel="icon" href="{PAGE}/static/icon.svg">'
"""Without it a browser asks for ``/favicon.ico``, which does not exist."""
_USED = "this link was opened already, or is older than two minutes"


def routes(app: App, sessions: PageSessions[Access]) -> list[BaseRoute]:
    """Returns the routes over these sessions."""

    async def link(request: Request) -> Response:
        access = access_of(request)
        try:
            access.check("send the token that the page is to be opened with")
        except ToolscriptError as error:
            return error_response(error)
        return json_response({"path": f"{ENTER}?code={sessions.link(access)}"})

    async def waiting(request: Request) -> Response:
        code = (await request.body()).decode(errors="replace")
        return json_response({"isWaiting": sessions.is_waiting(code)})

    async def enter(request: Request) -> Response:
        secret = sessions.enter(request.query_params.get("code", ""))
        if secret is None:
            problem = Problem(error=_USED, type="AccessError", is_login=True)
            return await rendered(app, request, "problem.html", problem, HTTPStatus.FORBIDDEN)
        if request.headers.get("sec-fetch-site", "none") != "none":  # led here by a file
            # What a redirection leads to would be of another site still, and get no cookie.
            refresh = {"refresh": f"0; url={PAGE}/"}
            answer = Response(_ICON, headers=refresh, media_type="text/html")
        else:
            answer = RedirectResponse(f"{PAGE}/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            cookie_name(request),
            secret,
            max_age=int(SESSION_S),
            path=PAGE,
            secure=request.headers.get("x-forwarded-proto") == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    async def leave(request: Request) -> Response:
        name = cookie_name(request)
        sessions.leave(request.cookies.get(name, ""))
        answer = RedirectResponse(f"{PAGE}/", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(name, path=PAGE, httponly=True, samesite="strict")
        return answer

    return [
        Route("/link", link, methods=["POST"]),
        Route("/link/waiting", waiting, methods=["POST"]),
        Route("/enter", enter),
        Route("/leave", leave, methods=["POST"]),
    ]
