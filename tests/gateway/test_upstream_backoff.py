"""When a server is tried again: upstream:isolation."""

from toolscript.gateway.backoff import FIRST_RETRY_S, LAST_RETRY_S, LASTING_S, Backoff


def test_the_pauses_grow_up_to_a_limit() -> None:
    backoff = Backoff()
    pauses = [backoff.pause() for _ in range(20)]
    assert pauses[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_RETRY_S


def test_a_connection_that_does_not_last_leaves_the_pause_as_long_as_it_was() -> None:
    backoff = Backoff()
    backoff.pause()
    backoff.lost(LASTING_S / 2)
    assert backoff.pause() == 2 * FIRST_RETRY_S


def test_a_connection_that_lasted_begins_anew() -> None:
    backoff = Backoff()
    backoff.pause()
    assert backoff.lost(0)
    assert not backoff.lost(0)
    assert backoff.lost(LASTING_S)
    assert backoff.pause() == FIRST_RETRY_S
    assert backoff.lost(0)
