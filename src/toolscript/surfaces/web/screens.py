"""Lists the screens: each is a function whose data is shown by a template or sent as JSON.

A screen works without JavaScript: it is read with GET, and changes something with the POST of a
form, whose answer redirects to the changed screen.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlencode

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolscript.app.application import App
from toolscript.errors import (
    AccessError,
    DeniedError,
    InputError,
    ToolscriptError,
    UnknownNameError,
)
from toolscript.surfaces.server.authentication import access_of
from toolscript.surfaces.server.error_answers import error_response, json_response
from toolscript.surfaces.server.error_codes import codes_of
from toolscript.surfaces.server.page_sessions import PAGE

Handler: TypeAlias = Callable[[App, Request], Awaitable[Any]]
"""Answers a request with a struct that the template shows, or with a response."""
JSON = ".json"
_MODULES = (
    "sign_in",
    "search_lab",
    "tool_screen",
    "server_screens",
    "review_screens",
    "usage_screens",
    "owner_screens",
    "consent_screen",
)
"""Each has its `Screens` as ``SCREENS``."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 1000
MAX_FORM_BYTES = 64 * 1024
_CLIENT_CLOSED = 499


class Screen(NamedTuple):
    """A screen, or the handler of one of its forms."""

    method: str
    path: str
    """Below the page's address."""
    template: str
    handler: Handler
    is_public: bool = False
    """Whether callers who are not logged in, and requests that are no form of the page, get in."""


class Screens(list[Screen]):
    """The screens of a module; `add` decorates the functions that answer them."""

    def add(
        self, method: str, path: str, template: str = "", *, is_public: bool = False
    ) -> Callable[[Handler], Handler]:
        """Returns a decorator for the function that answers this path; see `Screen`."""

        def decorate(handler: Handler) -> Handler:
            self.append(Screen(method, path, template, handler, is_public))
            return handler

        return decorate


def page_routes(app: App) -> list[BaseRoute]:
    """Returns the routes of the page; nothing is imported for them before one is asked."""
    return [
        Route(PAGE, _root),
        Mount(PAGE, _SecurityHeaders(_LazyRouter(app))),
    ]


async def _root(_: Request) -> Response:
    return RedirectResponse(f"{PAGE}/")


class _LazyRouter:
    """Imports the screens, and the modules they need, when the first one is asked for."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._router: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if self._router is None:
            self._router = await anyio.to_thread.run_sync(_router, self._app)
        await self._router(scope, receive, send)


def _router(app: App) -> ASGIApp:
    from starlette.routing import Router  # noqa: PLC0415 - with the others
    from starlette.staticfiles import StaticFiles  # noqa: PLC0415 - the same

    from toolscript.surfaces.web.rendering import STATIC  # noqa: PLC0415 - imports Jinja

    routes: list[BaseRoute] = [Mount("/static", StaticFiles(directory=STATIC))]
    for name in _MODULES:
        module = import_module(f"toolscript.surfaces.web.{name}")
        for screen in module.SCREENS:
            if screen.method == "GET" and screen.template:
                path = "/search" if screen.path == "/" else screen.path
                routes.append(Route(path + JSON, _make_endpoint(app, screen, as_json=True)))
            routes.append(Route(screen.path, _make_endpoint(app, screen), methods=[screen.method]))
    missing = Screen("GET", "/{path:path}", "", _not_found)
    routes.append(Route(missing.path, _make_endpoint(app, missing), methods=["GET", "POST"]))
    return Router(routes)


def _make_endpoint(
    app: App, screen: Screen, *, as_json: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    from toolscript.surfaces.web.rendering import Problem, rendered  # noqa: PLC0415 - imports Jinja

    async def endpoint(request: Request) -> Response:
        status = HTTPStatus.OK.value
        try:
            app.tasks.check()
            if not screen.is_public:
                access_of(request).check("log in first")
                if request.method == "POST":
                    await check_form(request)
                else:
                    request = _without_blanks(request)
            answer = await screen.handler(app, request)
        except ToolscriptError as problem:
            if as_json:
                return error_response(problem)
            kind = type(problem)
            status = codes_of(kind).http_status
            is_login = isinstance(problem, AccessError)
            answer = Problem(error=str(problem), type=kind.__name__, is_login=is_login)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)
        if isinstance(answer, Response):
            return answer
        if as_json:
            return json_response(answer)
        template = "problem.html" if isinstance(answer, Problem) else screen.template
        return await rendered(app, request, template, answer, status)

    return endpoint


async def _not_found(_: App, request: Request) -> Any:
    raise UnknownNameError(f"there is no page at {request.url.path}")


async def check_form(request: Request) -> None:
    """Raises an error for a POST that is too long, or not of a form of the page itself.

    `OriginGuard` has refused other sites; here the request has to name its own.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != _FORM:
        raise InputError(f"the content-type is {kind[:60]!r}; the page's forms send {_FORM}")
    own = request.headers.get("sec-fetch-site") == "same-origin"
    if not own and request.headers.get("origin") in {None, "null"}:
        raise DeniedError("a form has to say that it is the page's own; use another browser")
    size = len(await request.body())
    if size > MAX_FORM_BYTES:  # decoding and showing a long one would keep everybody waiting
        what = f"the form has {size} bytes; at most {MAX_FORM_BYTES} are read"
        raise InputError(f"{what}, more with: toolscript call")


async def form_of(request: Request) -> dict[str, list[str]]:
    """Returns the fields of a form, each with its values."""
    try:
        text = (await request.body()).decode()
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise InputError("the form cannot be read, or has too many fields") from None


def field(form: dict[str, list[str]], name: str) -> str:
    """Returns the first value of a form's field, without blanks around it; empty for none."""
    return form.get(name, [""])[0].strip()


def _without_blanks(request: Request) -> Request:
    """Returns a request without the parameters that are blank, as of a form's empty fields."""
    stated = [(name, text.strip()) for name, text in request.query_params.multi_items()]
    query = urlencode([each for each in stated if each[1]]).encode()
    return Request({**request.scope, "query_string": query}, request.receive)


def check_owner(request: Request) -> None:
    """Raises `DeniedError` for a caller who may not decide for the gateway's owner."""
    if not access_of(request).grant.is_owner:
        raise DeniedError(
            "only the gateway's owner may do this; open the page with: toolscript gateway page"
        )


def redirect(path: str) -> Response:
    """Returns the answer to a form: look at this path, below the page's address."""
    return RedirectResponse(f"{PAGE}{path}", HTTPStatus.SEE_OTHER)


class _SecurityHeaders:
    """Adds `HEADERS` to every answer that does not have its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message.get("headers", [])}
                added = [(n.encode(), v.encode()) for n, v in HEADERS.items()]
                more = [(name, value) for name, value in added if name not in present]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        await self._app(scope, receive, send_with_headers)
