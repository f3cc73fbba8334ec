"""Asks the owner whether a client of OAuth may use the tools, and with which rights."""

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from toolscript.app.application import App
from toolscript.config.permission_rules import check_profile
from toolscript.errors import InputError, UnknownNameError
from toolscript.surfaces.server.authentication import access_of
from toolscript.surfaces.server.authorization_server import DAYS, OAuthServer
from toolscript.surfaces.server.oauth_client_metadata import host_of, is_loopback
from toolscript.surfaces.server.page_sessions import CONSENT, PAGE
from toolscript.surfaces.web.rendering import rendered
from toolscript.surfaces.web.screens import Screens, check_owner, field, form_of

SCREENS = Screens()
_PATH = CONSENT.removeprefix(PAGE)


class ConsentScreen(Struct, frozen=True, kw_only=True):
    """A client that asks, and the choices of the owner."""

    name: str
    """The name that the client gives itself."""
    document_host: str
    """The host with the client's description; empty if the client has registered."""
    redirect_host: str
    """The host to which the answer goes."""
    is_loopback: bool
    """Whether that is a program on the machine of the browser."""
    profile: str
    """The profile that the client asks for; empty for none."""
    profiles: list[str]
    days: list[int]
    request: str
    """The client's request, sealed."""


class Departure(Struct, frozen=True, kw_only=True):
    """The address to which the browser goes with the owner's answer."""

    url: str
    host: str
    is_allowed: bool


@SCREENS.add("GET", _PATH, "consent.html", is_public=True)
async def ask(app: App, request: Request) -> Any:
    """The question, for the owner alone."""
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        # The cookie comes only with visits from the page itself: this one leads there.
        again = f"{CONSENT}?{urlencode(request.query_params.multi_items())}"
        return Response(headers={"refresh": f"0; url={again}"}, media_type="text/html")
    access_of(request).check(
        "a program asks to use your tools; log in as the gateway's owner, then reload this page"
    )
    check_owner(request)
    oauth = _server(request)
    asked = await oauth.check(request.query_params.multi_items())
    profiles = sorted(app.permissions.written[1])
    if asked.profile:
        check_profile(asked.profile, profiles)
    return ConsentScreen(
        name=asked.name or "A program without a name",
        document_host=asked.document_host,
        redirect_host=host_of(asked.redirect_uri),
        is_loopback=is_loopback(asked.redirect_uri),
        profile=asked.profile,
        profiles=profiles,
        days=list(DAYS),
        request=oauth.seal_request(asked),
    )


@SCREENS.add("POST", _PATH)
async def decide(app: App, request: Request) -> Any:
    """Send the owner's answer to the client, by the browser."""
    check_owner(request)
    oauth, form = _server(request), await form_of(request)
    asked = oauth.read_request(field(form, "request"))
    is_allowed = field(form, "answer") == "allow"
    if is_allowed:
        profile, days = field(form, "profile"), field(form, "days")
        if profile:
            check_profile(profile, app.permissions.written[1])
        if days not in map(str, DAYS):
            raise InputError(
                f"the days are {days[:20]!r}; choose one of {', '.join(map(str, DAYS))}"
            )
        url = oauth.allow(asked, profile, int(days))
    else:
        url = oauth.deny(asked)
    page = Departure(url=url, host=host_of(asked.redirect_uri), is_allowed=is_allowed)
    answer = await rendered(app, request, "departure.html", page, HTTPStatus.OK)
    # No redirection: the page's policy lets forms lead to the page alone.
    answer.headers["refresh"] = f"0; url={url}"
    return answer


def _server(request: Request) -> OAuthServer:
    oauth: OAuthServer | None = request.app.state.oauth
    if oauth is None:
        raise UnknownNameError("clients cannot log in here; start the gateway with --oauth")
    return oauth
