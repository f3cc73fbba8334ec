"""When a server is tried again: upstream:isolation."""

import pytest

from toolscript.gateway.upstream.backoff import FIRST_RETRY_S, LAST_RETRY_S, LASTING_S, Backoff


def steady() -> Backoff:
    """One whose pauses do not vary."""
    return Backoff(lambda: 0.5)


def test_the_pauses_grow_up_to_a_limit() -> None:
    backoff = steady()
    pauses = [backoff.pause() for _ in range(12)]
    assert pauses[:3] == [FIRST_RETRY_S, 2 * FIRST_RETRY_S, 4 * FIRST_RETRY_S]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST_RETRY_S


def test_pauses_vary_by_a_fifth() -> None:
    assert Backoff(lambda: 0.0).pause() == pytest.approx(0.8 * FIRST_RETRY_S)
    assert Backoff(lambda: 1.0).pause() == pytest.approx(1.2 * FIRST_RETRY_S)
    assert len({Backoff().pause() for _ in range(20)}) > 1


def test_a_connection_that_does_not_last_leaves_the_pause_as_long_as_it_was() -> None:
    backoff = steady()
    backoff.pause()
    backoff.lost(LASTING_S / 2)
    assert backoff.pause() == 2 * FIRST_RETRY_S


def test_a_connection_that_lasted_begins_anew() -> None:
    backoff = steady()
    backoff.pause()
    assert backoff.lost(0)
    assert not backoff.lost(0)
    assert backoff.lost(LASTING_S)
    assert backoff.pause() == FIRST_RETRY_S
    assert backoff.lost(0)
