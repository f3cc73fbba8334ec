"""The sessions of people who open the page: a one-time link becomes a cookie with its grant.

A browser sends no token. Whoever has one, or the gateway's key, asks for a link; the browser that
opens it first gets a cookie. Both are 256 random bits, of which only hashes are kept, in memory:
every session ends with the gateway.
"""

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec
from starlette.requests import HTTPConnection

LOG_IN_S = 600
"""How long a log-in, and then the question, may take, in seconds."""
PAGE = "/ui"
"""Below this address the page is, and the cookie counts."""
ENTER = f"{PAGE}/enter"
"""The path of a link."""
CONSENT = f"{PAGE}/authorize"
"""The path to which a client of OAuth sends the browser."""
RETURN = f"{CONSENT}/return"
"""The path to which a company's provider sends it back."""
LINK_S = 120.0
"""How long a link may be opened."""
SESSION_S = 12 * 3600.0
MAX_LINKS, MAX_SESSIONS = 20, 50
"""Limits for each holder; a further one takes the place of that holder's oldest."""


class PendingLogIn(msgspec.Struct, frozen=True, array_like=True):
    """A browser's way to the provider and back."""

    state: str
    nonce: str
    verifier: str
    query: str
    """The client's request, which is checked once the person is known."""
    expires: float
    """In seconds since 1970."""


class Held(Protocol):
    """The access of a holder."""

    @property
    def holder(self) -> str:
        """The id of who has it."""
        ...


_A = TypeVar("_A", bound=Held)


class _Entry(NamedTuple, Generic[_A]):
    access: _A
    expires: float


class PageSessions(Generic[_A]):
    """Links that were not opened yet, and sessions. For use on the event loop only.

    Args:
        is_admitted: Whether a holder still is; asked at each use.
        clock: Returns seconds.
    """

    def __init__(
        self, is_admitted: Callable[[str], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_admitted = is_admitted
        self._clock = clock
        self._links: dict[str, _Entry[_A]] = {}
        self._sessions: dict[str, _Entry[_A]] = {}

    def link(self, access: _A) -> str:
        """Returns the code of a new link that gives this access once, within `LINK_S`."""
        return self._add(self._links, access, LINK_S, MAX_LINKS)

    def is_waiting(self, code: str) -> bool:
        """Returns whether the link of a code was not opened yet."""
        return _hash(code) in self._links

    def enter(self, code: str) -> str | None:
        """Returns the secret of a new session; None for a wrong, used or expired code."""
        entry = self._links.pop(_hash(code), None)
        if entry is None or not self._is_valid(entry):
            return None
        return self._add(self._sessions, entry.access, SESSION_S, MAX_SESSIONS)

    def find(self, secret: str) -> _A | None:
        """Returns the access of a session; None if it is unknown, expired or revoked."""
        entry = self._sessions.get(_hash(secret)) if secret else None
        if entry is None:
            return None
        if not self._is_valid(entry):
            self.leave(secret)
            return None
        return entry.access

    def leave(self, secret: str) -> None:
        """Ends a session, if there is one."""
        self._sessions.pop(_hash(secret), None)

    def _is_valid(self, entry: _Entry[_A]) -> bool:
        return self._clock() < entry.expires and self._is_admitted(entry.access.holder)

    def _add(self, entries: dict[str, _Entry[_A]], access: _A, lasts_s: float, limit: int) -> str:
        secret = secrets.token_urlsafe(32)
        same = [key for key, entry in entries.items() if entry.access.holder == access.holder]
        if len(same) >= limit:
            del entries[same[0]]
        entries[_hash(secret)] = _Entry(access, self._clock() + lasts_s)
        return secret


def is_page(path: str) -> bool:
    """Whether a path is one of the page's."""
    return path == PAGE or path.startswith(f"{PAGE}/")


def cookie_name(request: HTTPConnection) -> str:
    """Returns the cookie's name: browsers send a cookie to every port of a host."""
    return f"toolscript_{request.url.port or 0}"


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
