"""Sessions over plain HTTP: requests with the same header ``Toolscript-Session`` belong together.

A request without the header is a session alone.
"""

from collections import OrderedDict

from starlette.requests import Request

from toolscript.gateway.base import Caller, SilentCaller
from toolscript.surfaces.mcp.endpoint import Session
from toolscript.surfaces.server.authentication import holder_of, holder_session
from toolscript.surfaces.server.project_header import project_of

HEADER = "toolscript-session"
MAX_SESSIONS = 1024
MAX_CHARS = 128


class ClientSessions:
    """The latest sessions, by holder and name. For use on the event loop only."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def get(self, holder: str, name: str) -> Session:
        """Returns the holder's session of this name; makes it if there is none."""
        key = holder, name[:MAX_CHARS]
        session = self._known.pop(key, None) or Session()
        self._known[key] = session
        if len(self._known) > MAX_SESSIONS:
            self._known.popitem(last=False)
        return session


def session_of(request: Request) -> Session:
    """Returns the session that a request names, or a new one."""
    name = request.headers.get(HEADER, "")
    if not name:
        return Session()
    sessions: ClientSessions = request.app.state.sessions
    return sessions.get(holder_of(request), name)


def caller_of(request: Request, session: Session) -> Caller:
    """Returns the caller of a request whose session is known."""
    named = bool(request.headers.get(HEADER))
    return SilentCaller(project_of(request), session.id if named else holder_session(request))
