"""When a server that cannot be reached, or does not stay, is tried again."""

import random
from collections.abc import Callable

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 60.0
LASTING_S = 60.0
"""A connection that held this long counts as one that worked."""
TRIPS = 10
"""Failures in a row, over some three minutes, after which the circuit is open:"""
OPEN_S = 300.0
"""then only one attempt is made now and then, to see whether it can be closed."""


class Backoff:
    """The pauses between one server's attempts, growing until a connection lasts.

    Being connected is not enough: a server that dies as soon as its tools are
    listed would be started again at once, for ever. Pauses vary by a fifth, so
    that servers which failed together are not tried together.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:  # noqa: S311 - spreads retries, guards nothing
        self._chance = chance
        self._delay = FIRST_RETRY_S
        self._brief = 0
        self._failures = 0

    @property
    def is_open(self) -> bool:
        """Whether it has failed so often that it is hardly tried any more."""
        return self._failures >= TRIPS

    def lost(self, lasted_s: float) -> bool:
        """Note that a connection ended; whether there is hope that the next one lasts."""
        if lasted_s >= LASTING_S:
            self._delay, self._brief, self._failures = FIRST_RETRY_S, 0, 0
        else:
            self._brief += 1
        return self._brief <= 1

    def pause(self) -> float:
        """How long to wait before the next attempt, in seconds."""
        self._failures += 1
        delay, self._delay = self._delay, min(LAST_RETRY_S, self._delay * 2)
        return (OPEN_S if self.is_open else delay) * (0.8 + 0.4 * self._chance())
