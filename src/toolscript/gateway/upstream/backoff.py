"""Pauses between attempts to connect to a server that fails."""

import random
from collections.abc import Callable

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 60.0
LASTING_S = 60.0
"""A connection that lasted so long counts as one that worked."""
TRIPS = 10
"""After so many failures in a row, over some three minutes, the circuit is open."""
OPEN_S = 300.0
"""The pause while the circuit is open."""


class Backoff:
    """The pauses between one server's attempts, growing until a connection lasts.

    A connection must also last: a server that dies as soon as its tools are listed would
    be started again at once, for ever. Pauses vary by a fifth, so that servers which
    failed together are not tried together.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:  # noqa: S311 - spreads retries, guards nothing
        self._chance = chance
        self._delay = FIRST_RETRY_S
        self._brief = 0
        self._failures = 0

    @property
    def is_open(self) -> bool:
        """Whether the circuit is open."""
        return self._failures >= TRIPS

    def lost(self, lasted_s: float) -> bool:
        """Records the end of a connection; returns whether the next one may well last."""
        if lasted_s >= LASTING_S:
            self._delay, self._brief, self._failures = FIRST_RETRY_S, 0, 0
        else:
            self._brief += 1
        return self._brief <= 1

    def pause(self) -> float:
        """Records a failure; returns how long to wait before the next attempt, in seconds."""
        self._failures += 1
        delay, self._delay = self._delay, min(LAST_RETRY_S, self._delay * 2)
        return (OPEN_S if self.is_open else delay) * (0.8 + 0.4 * self._chance())
