"""Checks every request's origin and token, and gives its caller the rights of the token.

It stands before every route of the HTTP surface, those of MCP included.
"""

import hmac
import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

import anyio
import msgspec
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolscript.config.access_tokens import TokenStore
from toolscript.config.permission_rules import check_profile
from toolscript.config.setting_groups import CLIENT_DOCUMENT
from toolscript.errors import (
    AccessError,
    DatabaseUnavailableError,
    TokenFileError,
    ToolscriptError,
)
from toolscript.gateway.base import FORWARDED
from toolscript.surfaces.server.audit_log import ANYONE, HOLDER, OWNER, Refusals
from toolscript.surfaces.server.error_answers import error_response, refusal
from toolscript.surfaces.server.page_sessions import (
    CONSENT,
    ENTER,
    RETURN,
    PageSessions,
    cookie_name,
    is_page,
)
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher
from toolscript.types import ANONYMOUS, EVERYTHING, Grant

if TYPE_CHECKING:
    from toolscript.surfaces.server.authorization_server import OAuthServer

log = logging.getLogger(__name__)
PROFILE_HEADER = "toolscript-profile"
"""Names a profile of the configuration, whose rules hold for the request as well."""
_PROFILE_PATH = re.compile(r"/mcp/p/([^/]+)(/.*)?")
"""An address of MCP that names a profile: the rest is an address below ``/mcp``."""
MAX_PROFILE_CHARS = 200
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
ANY_HOST = ("*",)
_OWN_SITE = {"same-origin", "none"}
"""Values of ``Sec-Fetch-Site``: the gateway's own pages, and addresses that a user has typed."""
ACCESS = "toolscript.access"
"""The key of the `Access` in the scope of an admitted request."""
LIVE, READY, HEALTH = "/live", "/ready", "/health"
PROBES = frozenset({LIVE, READY})
"""Routes that answer everybody the same, and look at no token."""
_WITHOUT_TOKEN = PROBES | {FORWARDED, CLIENT_DOCUMENT}
"""Requests of other replicas are sealed instead."""
_PUBLIC = {HEALTH, "/"}
"""Routes for callers who are granted nothing, such as a supervisor; the page, to which a browser
is sent, tells them how to log in."""


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a caller, and who the caller is."""

    grant: Grant
    holder: str
    """The id of a token, `OWNER` or `ANYONE`; empty for a caller who is granted nothing."""
    problem: ToolscriptError | None = None
    """Why nothing is granted, if that is not for the lack of a token that is valid."""

    def check(self, advice: str) -> None:
        """Raises the problem, or `AccessError`, for a caller who is granted nothing.

        Args:
            advice: Tells a caller without a valid token how to go on.
        """
        if not self.holder:
            raise self.problem or AccessError(advice)


Admit: TypeAlias = Callable[[str], Access]
"""Returns the access that a token (or an empty string) gives; raises `AccessError` for none."""


OWNERS = Access(EVERYTHING, OWNER)
"""The access of the owner's own commands."""


class TokenAuthenticator:
    """Admits to a gateway: its owner's commands by ``key``, other callers by a token.

    Args:
        tokens: The tokens of the gateway's configuration.
        key: The key in the gateway's record, which only its owner can read.
        open_to_all: Whether every program that reaches the gateway is admitted for as long as no
            token was ever created.
        has_oauth: Whether clients can log in by OAuth.
    """

    def __init__(
        self, tokens: TokenStore, key: str, *, open_to_all: bool, has_oauth: bool = False
    ) -> None:
        self._tokens = tokens
        self._key = key
        self._open_to_all = open_to_all
        self._has_oauth = has_oauth
        self._fault = ""

    def __call__(self, token: str) -> Access:
        """See `Admit`; raises `TokenFileError`, too, whose message does not name the file.

        Raises `DatabaseUnavailableError` if the tokens are in a database that has not answered
        for too long: then it is not known whether any token is needed, either.
        """
        if hmac.compare_digest(token.encode(), self._key.encode()):
            return OWNERS
        if self._is_open:
            return Access(ANONYMOUS, ANYONE)
        try:
            found = self._tokens.find(token)
        except TokenFileError as error:
            if not token:
                raise self._no_token() from None
            if self._fault != str(error):  # said once
                log.error("%s", error)  # noqa: TRY400 - for its owner, in one line
            self._fault = str(error)
            raise TokenFileError(
                "the gateway's tokens cannot be read, so no caller is let in; "
                "its owner learns more from: toolscript token list"
            ) from None
        if found is not None:
            return Access(msgspec.structs.replace(found.grant, holder=found.id), found.id)
        if not token:
            raise self._no_token()
        raise AccessError(
            "the token is not known, or has expired; make one with: toolscript token create"
        )

    def is_admitted(self, holder: str) -> bool:
        """Whether this holder of an `Access` would still be admitted."""
        if holder == OWNER:
            return True
        try:
            valid = self._tokens.valid()
        except TokenFileError:
            return False
        except DatabaseUnavailableError:  # what is under way goes on; new requests are refused
            return True
        if holder == ANYONE:
            return self._is_open
        return any(each.id == holder for each in valid)

    @property
    def _is_open(self) -> bool:
        return self._open_to_all and not self._tokens.protected

    def _no_token(self) -> AccessError:
        asks = "this gateway asks for a token; send it as 'Authorization: Bearer …'"
        if self._has_oauth:
            return AccessError(f"{asks}, or log in by OAuth if your client can")
        if self._tokens.protected:
            return AccessError(asks)
        return AccessError(
            f"{asks}; for clients without one, start it with: toolscript gateway start --open"
        )


def access_of(request: HTTPConnection) -> Access:
    """Returns the access of this request's caller; see `OriginGuard`."""
    return request.scope[ACCESS]


def grant_of(request: HTTPConnection) -> Grant:
    """Returns the rights of this request's caller: the tools to find, list and call."""
    return access_of(request).grant


def holder_of(request: HTTPConnection) -> str:
    """Returns who the caller of this request is; see `Access`."""
    return access_of(request).holder


def holder_session(request: HTTPConnection) -> str:
    """Returns the session of a request that names none: one for each holder of a token.

    Empty for this machine's user, and if no token is asked for.
    """
    holder = holder_of(request)
    return "" if holder in {OWNER, ANYONE, ""} else f"holder:{holder}"


class OriginGuard:
    """Refuses requests that a foreign web page causes, and gives the others their access.

    A request with another ``Origin`` than the gateway's own, or one that the browser calls
    ``cross-site`` or ``same-site`` (another port of this machine), comes from a page that makes the
    browser send it. Behind a proxy the own origin may begin with ``https``. Only the address of the
    page's links may be opened from anywhere, because they hold a code, and that of consent, which
    has no effect.

    Below the page's address the cookie of one of the ``sessions`` counts like a token.
    ``profiles`` returns the names of the profiles that requests may choose. Clients that log in
    by ``oauth`` learn from a refusal how.
    """

    def __init__(  # noqa: PLR0913 - what the checks need
        self,
        app: ASGIApp,
        *,
        admit: Admit,
        revocations: RevocationWatcher,
        refusals: Refusals,
        sessions: PageSessions[Access] | None = None,
        profiles: Callable[[], Iterable[str]] = tuple,
        oauth: "OAuthServer | None" = None,
        is_behind_proxy: bool = False,
    ) -> None:
        self._app = app
        self._admit = admit
        self._revocations = revocations
        self._refusals = refusals
        self._sessions = sessions
        self._profiles = profiles
        self._oauth = oauth
        self._is_behind_proxy = is_behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        _read_profile(scope)
        request = HTTPConnection(scope)
        problem = self._problem(request)
        if problem:
            await refusal(403, problem)(scope, receive, send)
            return
        try:
            scope[ACCESS] = access = self._with_profiles(self._access_for(request), request)
            HOLDER.set(access.holder)
        except ToolscriptError as error:
            answer = error_response(error)
            if isinstance(error, AccessError) and self._oauth is not None:
                has_token = "authorization" in request.headers
                challenge = self._oauth.challenge(path, has_token=has_token)
                answer.headers["www-authenticate"] = challenge
            await answer(scope, receive, send)
            return
        if access.holder in {OWNER, ""}:
            await self._app(scope, receive, send)
        else:
            await self._while_admitted(access.holder, scope, receive, send)

    async def _while_admitted(
        self, holder: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer for as long as the holder is admitted."""
        begun = False

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        with anyio.CancelScope() as under_way:
            self._revocations.add(under_way, holder, under_way.cancel)
            try:
                await self._app(scope, receive, send_noted)
            finally:
                self._revocations.discard(under_way)
        if not under_way.cancelled_caught:
            return
        if begun:  # a stream: it ends here
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            revoked = AccessError("the token was revoked, or has expired, while this was under way")
            await error_response(revoked)(scope, receive, send)

    def _access_for(self, request: HTTPConnection) -> Access:
        path = request.url.path
        if path in _WITHOUT_TOKEN or (self._oauth is not None and self._oauth.is_open(path)):
            return Access(Grant(), "")
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        access = None if token else self._page_access(request)
        if access is not None:
            return access
        try:
            return self._admit(token.strip() if scheme.lower() == "bearer" else "")
        except (AccessError, TokenFileError, DatabaseUnavailableError) as error:
            is_public, is_judged = _is_public(path), not isinstance(error, DatabaseUnavailableError)
            if is_judged and (token or not is_public):
                self._refusals.add(request.client.host if request.client else "here")
            if not is_public:
                raise
            return Access(Grant(), "", None if isinstance(error, AccessError) else error)

    def _page_access(self, request: HTTPConnection) -> Access | None:
        """Returns the access of the page's cookie; None without one, or for another path."""
        if self._sessions is None or not is_page(request.url.path):
            return None
        return self._sessions.find(request.cookies.get(cookie_name(request), ""))

    def _with_profiles(self, access: Access, request: HTTPConnection) -> Access:
        """Returns the access as the profiles that a request names narrow it.

        Raises `UnknownNameError`, unless the request only asks whether the gateway lives.
        """
        values = filter(None, request.headers.getlist(PROFILE_HEADER))
        names = tuple(unquote(value)[:MAX_PROFILE_CHARS] for value in values)
        if not names or not access.holder:
            return access
        if request.url.path != HEALTH:
            for name in names:
                check_profile(name, self._profiles(), access.grant)
        profiles = (*access.grant.profiles, *names)
        return replace(access, grant=msgspec.structs.replace(access.grant, profiles=profiles))

    def _problem(self, request: HTTPConnection) -> str:
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "none")
        # What a browser sends with a form of a page that is to name no referrer.
        unnamed = origin == "null" and site == "same-origin" and is_page(request.url.path)
        if origin is not None and not unnamed and not self._is_own_origin(origin, request):
            return f"a page of {origin[:60]!r} may not ask this gateway"
        # A file with a link leads here, too; the link's code says that it may.
        is_visit = request.headers.get("sec-fetch-dest") == "document"
        is_link = request.url.path in {ENTER, CONSENT, RETURN} and is_visit
        if site not in _OWN_SITE and not is_link:
            return f"a page of another site ({site[:60]!r}) may not ask this gateway"
        return ""

    def _is_own_origin(self, origin: str, request: HTTPConnection) -> bool:
        """Whether an origin is this gateway's: its scheme, host and port are the request's."""
        scheme, _, host = origin.lower().partition("://")
        if self._oauth is not None and origin.lower() == self._oauth.issuer:
            return True
        schemes = (request.scope["scheme"], "https" if self._is_behind_proxy else "")
        return scheme in schemes and host == request.headers.get("host", "").lower()


def _read_profile(scope: Scope) -> None:
    """Moves a profile from the path of a request to its headers, which reach other replicas."""
    if named := _PROFILE_PATH.fullmatch(scope["path"]):
        scope["path"] = f"/mcp{named[2] or ''}"
        scope["headers"] = [*scope["headers"], (PROFILE_HEADER.encode(), quote(named[1]).encode())]


def _is_public(path: str) -> bool:
    """Whether a path is answered without a valid token, if only to say so."""
    return path in _PUBLIC or is_page(path)
