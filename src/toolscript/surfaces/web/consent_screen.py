"""Asks whether a client of OAuth may use the tools, and with which rights.

The owner is asked, or a person whom a company's provider has logged in.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from toolscript.app.application import App
from toolscript.config.permission_rules import check_profile
from toolscript.errors import DeniedError, InputError, UnknownNameError
from toolscript.surfaces.server.authentication import access_of
from toolscript.surfaces.server.authorization_server import DAYS, AuthorizationRequest, OAuthServer
from toolscript.surfaces.server.oauth_client_metadata import host_of, is_loopback
from toolscript.surfaces.server.page_sessions import (
    CONSENT,
    LOG_IN_S,
    PAGE,
    RETURN,
    PendingLogIn,
    cookie_name,
)
from toolscript.surfaces.web.rendering import rendered
from toolscript.surfaces.web.screens import Screens, check_form, check_owner, field, form_of

if TYPE_CHECKING:
    from toolscript.surfaces.server.oidc_client import OidcClient

SCREENS = Screens()
MAX_COOKIE_CHARS = 3_900
"""Browsers take no longer ones."""
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
    account: str
    """The account of the person who is asked; empty for the owner."""
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
    """The question, for the owner alone; with a provider the way to its log-in."""
    oauth = _server(request)
    if oauth.provider is not None:
        return await _begin_log_in(oauth, oauth.provider, request)
    if request.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        # The cookie comes only with visits from the page itself: this one leads there.
        again = f"{CONSENT}?{urlencode(request.query_params.multi_items())}"
        return Response(headers={"refresh": f"0; url={again}"}, media_type="text/html")
    access_of(request).check(
        "a program asks to use your tools; log in as the gateway's owner, then reload this page"
    )
    check_owner(request)
    return _question(app, oauth, await oauth.check(request.query_params.multi_items()))


@SCREENS.add("GET", RETURN.removeprefix(PAGE), is_public=True)
async def ask_person(app: App, request: Request) -> Any:
    """The question, for a person who comes back from the provider."""
    oauth = _server(request)
    if oauth.provider is None:
        raise UnknownNameError("nobody logs in here; the configuration has no issuer")
    log_in = _log_in(oauth, request)
    account, profiles = await oauth.provider.finish(log_in, request.query_params.multi_items())
    asked = await oauth.check(parse_qsl(log_in.query, keep_blank_values=True))
    asked = replace(asked, log_in=log_in.state, account=account, profiles=profiles)
    return await rendered(app, request, "consent.html", _question(app, oauth, asked))


def _question(app: App, oauth: OAuthServer, asked: AuthorizationRequest) -> ConsentScreen:
    profiles = _profiles(app, asked)
    if asked.profile:
        check_profile(asked.profile, profiles)
    return ConsentScreen(
        name=asked.name or "A program without a name",
        document_host=asked.document_host,
        redirect_host=host_of(asked.redirect_uri),
        is_loopback=is_loopback(asked.redirect_uri),
        profile=asked.profile,
        account=asked.account,
        profiles=profiles,
        days=list(DAYS),
        request=oauth.seal_request(asked),
    )


def _profiles(app: App, asked: AuthorizationRequest) -> list[str]:
    """Returns the profiles to choose from; raises `DeniedError` if a person may have none."""
    profiles = sorted(app.permissions.written[1])
    if not asked.log_in:
        return profiles
    wanted = {asked.profile} if asked.profile else {*profiles}
    own = [name for name in profiles if name in wanted & {*asked.profiles}]
    if not own:
        raise DeniedError(f"{asked.account} is in no group that may use this; ask the owner")
    return own


@SCREENS.add("POST", _PATH, is_public=True)
async def decide(app: App, request: Request) -> Any:
    """Send the answer to the client, by the browser."""
    oauth = _server(request)
    if oauth.provider is None:
        access_of(request).check("log in first")
        check_owner(request)
    await check_form(request)
    form = await form_of(request)
    asked = oauth.read_request(field(form, "request"))
    if oauth.provider is not None and _log_in(oauth, request).state != asked.log_in:
        raise DeniedError("this was asked in another browser; let the program ask again")
    is_allowed = field(form, "answer") == "allow"
    if is_allowed:
        profile, days = field(form, "profile"), field(form, "days")
        if profile or asked.log_in:
            check_profile(profile, _profiles(app, asked))
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


def _log_in(oauth: OAuthServer, request: Request) -> PendingLogIn:
    """Returns the log-in of the browser's cookie; raises `DeniedError` if there is none."""
    name = f"{cookie_name(request)}_log_in"
    log_in = oauth.read("log-in", request.cookies.get(name, ""), PendingLogIn)
    if log_in is None:
        raise DeniedError("no log-in of this browser has begun here; let the program ask again")
    return log_in


async def _begin_log_in(oauth: OAuthServer, provider: "OidcClient", request: Request) -> Response:
    """Sends the browser to the provider, with the log-in in a cookie."""
    url, log_in = await provider.begin(request.url.query)
    sealed = oauth.seal("log-in", log_in)
    if len(sealed) > MAX_COOKIE_CHARS:
        raise InputError("the program's request is too long to be kept during a log-in")
    answer, is_https = RedirectResponse(url, 303), oauth.issuer.startswith("https:")
    name = f"{cookie_name(request)}_log_in"
    answer.set_cookie(  # lax, since the provider is another site
        name, sealed, LOG_IN_S, path=CONSENT, secure=is_https, httponly=True, samesite="lax"
    )
    return answer


def _server(request: Request) -> OAuthServer:
    oauth: OAuthServer | None = request.app.state.oauth
    if oauth is None:
        raise UnknownNameError("clients cannot log in here; start the gateway with --oauth")
    return oauth
