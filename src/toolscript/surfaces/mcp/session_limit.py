"""Tracks the open sessions of ``/mcp`` with their owners, and ends the oldest above the limit."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from toolscript.surfaces.mcp.request_context import Exposure
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher

MAX_SESSIONS = 250
"""The limit for all exposures together. A session takes some 40 KiB, and with 1,000 of them the
garbage collector held the event loop for more than 100 ms at a time."""
IDLE_S = 30 * 60.0
"""A session without a request for this long is ended."""


@dataclass(eq=False, slots=True)
class OpenSession:
    """One session, with its owner and its requests."""

    identifier: str
    exposure: Exposure
    holder: str
    """The holder of the token that opened it, who alone may use it."""
    requests: int = 0
    """The number of requests under way, an open stream included."""
    close: Callable[[], object] | None = None
    """Ends a session that is one stream; None for one that the SDK ends."""

    def is_for(self, exposure: Exposure, holder: str) -> bool:
        """Returns whether a request of this holder, to this exposure, may use it."""
        return (self.exposure, self.holder) == (exposure, holder)


class SessionLimit:
    """Ends a session of the holder who has most when there are too many.

    That is the one whose last request is oldest, idle ones first. Sessions that the SDK has ended
    for lack of requests are the first to be forgotten.
    """

    def __init__(
        self,
        end: Callable[[OpenSession], object],
        revocations: RevocationWatcher,
        most: int = MAX_SESSIONS,
    ) -> None:
        self._end = end
        self._revocations = revocations
        self._most = most
        self._open: OrderedDict[str, OpenSession] = OrderedDict()
        """In the order of the last requests, the oldest first."""

    def add(self, session: OpenSession) -> None:
        """Count a session that was opened."""
        self._open[session.identifier] = session
        self._revocations.add(session, session.holder, lambda: self.finish(session))
        if len(self._open) > self._most:
            numbers = Counter(each.holder for each in self._open.values())
            most = max(numbers, key=numbers.__getitem__)
            others = (each for each in self._open.values() if each is not session)
            self.finish(min(others, key=lambda each: (each.holder != most, bool(each.requests))))

    def find(self, identifier: str) -> OpenSession | None:
        """Returns the session of this id; None for an unknown or ended one."""
        return self._open.get(identifier)

    def all(self) -> list[OpenSession]:
        """Returns the open sessions, that with the latest request last."""
        return [*self._open.values()]

    @contextmanager
    def using(self, session: OpenSession) -> Generator[None]:
        """Count a request of a session for as long as the block lasts."""
        session.requests += 1
        self._touch(session)
        try:
            yield
        finally:
            session.requests -= 1
            self._touch(session)

    def discard(self, session: OpenSession) -> None:
        """Forget a session that has ended by itself."""
        self._open.pop(session.identifier, None)
        self._revocations.discard(session)

    def finish(self, session: OpenSession) -> None:
        """End a session."""
        self.discard(session)
        self._end(session)

    def _touch(self, session: OpenSession) -> None:
        if session.identifier in self._open:
            self._open.move_to_end(session.identifier)
