"""Sessions over plain HTTP: requests with the same header ``Toolscript-Session`` belong together.

A request without the header is a session alone.
"""

from collections import OrderedDict
from collections.abc import Hashable

from starlette.requests import Request

from toolscript.gateway.base import Caller, SilentCaller
from toolscript.surfaces.mcp.request_context import Session
from toolscript.surfaces.server.authentication import holder_of, holder_session
from toolscript.surfaces.server.project_header import project_of

HEADER = "toolscript-session"
MAX_CHARS = 128
MAX_REMEMBERED = 1024


class LatestSessions:
    """Remembers sessions that no connection lasts for; the longest unused one is forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Session] = OrderedDict()
        """The longest unused one first."""

    def get(self, key: Hashable) -> Session:
        """Returns the memory of the session of a key; it is empty at first."""
        session = self._known.pop(key, None) or Session()
        self._known[key] = session
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return session


def session_of(request: Request) -> Session:
    """Returns the session that a request names, or a new one."""
    name = request.headers.get(HEADER, "")
    if not name:
        return Session()
    sessions: LatestSessions = request.app.state.sessions
    return sessions.get((holder_of(request), name[:MAX_CHARS]))


def caller_of(request: Request, session: Session) -> Caller:
    """Returns the caller of a request whose session is known."""
    named = bool(request.headers.get(HEADER))
    return SilentCaller(project_of(request), session.id if named else holder_session(request))
