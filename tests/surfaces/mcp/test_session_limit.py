"""Which session ends where there are too many."""

from toolscript.surfaces.mcp.request_context import Exposure
from toolscript.surfaces.mcp.session_limit import OpenSession, SessionLimit
from toolscript.surfaces.server.revocation_watcher import RevocationWatcher

ALL: Exposure = "all"


def opened(name: str, holder: str = "holder") -> OpenSession:
    return OpenSession(name, ALL, holder)


def limit(ended: list[str]) -> SessionLimit:
    return SessionLimit(
        lambda session: ended.append(session.identifier), RevocationWatcher(lambda _: True), most=2
    )


def test_idle_sessions_end_first() -> None:
    ended = list[str]()
    sessions = limit(ended)
    busy, idle = opened("busy"), opened("idle")
    sessions.add(busy)
    sessions.add(idle)
    with sessions.using(busy):
        sessions.add(opened("new"))
    assert ended == ["idle"]


def test_where_all_are_busy_the_oldest_ends_and_not_the_new_one() -> None:
    ended = list[str]()
    sessions = limit(ended)
    first, second = opened("first"), opened("second")
    sessions.add(first)
    sessions.add(second)
    with sessions.using(first), sessions.using(second):
        sessions.add(opened("new"))
    assert ended == ["first"]


def test_a_holder_with_many_ends_none_of_another() -> None:
    """Idle ones neither."""
    ended = list[str]()
    sessions = limit(ended)
    sessions.add(opened("owner's", "owner"))
    busy = [opened(str(number)) for number in range(5)]
    for session in busy:
        session.requests = 1
        sessions.add(session)
    assert ended == ["0", "1", "2", "3"]


def test_a_session_that_has_ended_by_itself_is_not_ended_again() -> None:
    ended = list[str]()
    sessions = limit(ended)
    sessions.add(first := opened("first"))
    sessions.discard(first)
    sessions.add(opened("second"))
    sessions.add(opened("third"))
    assert ended == []
    assert sessions.find("first") is None
