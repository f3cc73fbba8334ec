"""Sessions over plain HTTP: requests with the same header ``Toolscript-Session`` belong together.

A request without the header is a session alone.
"""

from starlette.requests import Request

from toolscript.gateway.base import Caller, SilentCaller
from toolscript.surfaces.mcp.request_context import Session
from toolscript.surfaces.mcp.session_ids import LatestSessions
from toolscript.surfaces.server.authentication import holder_of, holder_session
from toolscript.surfaces.server.project_header import project_of

HEADER = "toolscript-session"
MAX_CHARS = 128


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
