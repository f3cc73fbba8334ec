"""Sessions over plain HTTP: requests that say the same id are one client's, in order.

Without the header a request stands for itself, and what it calls is no step of
anything.
"""

from collections import OrderedDict

from starlette.requests import Request

from toolscript.surfaces.mcp.endpoint import Session
from toolscript.surfaces.server.authentication import holder_of

HEADER = "toolscript-session"
MAX_SESSIONS = 1024
MAX_CHARS = 128


class ClientSessions:
    """The latest sessions, by who asks and what they call it. Used on the event loop alone."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], Session] = OrderedDict()

    def of(self, holder: str, name: str) -> Session:
        """The session of that name and `Access.holder`, made where there is none."""
        key = holder, name[:MAX_CHARS]
        session = self._known.pop(key, None) or Session()
        self._known[key] = session
        if len(self._known) > MAX_SESSIONS:
            self._known.popitem(last=False)
        return session


def session_of(request: Request) -> Session:
    """The session that a request says it belongs to, or one of its own."""
    name = request.headers.get(HEADER, "")
    sessions: ClientSessions = request.app.state.sessions
    return sessions.of(holder_of(request), name) if name else Session()
