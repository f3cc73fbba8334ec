"""Pauses between attempts to connect to a server that fails."""

import random
from collections.abc import Callable

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 300.0
LASTING_S = 60.0
"""A connection that lasted so long counts as one that worked."""


class Backoff:
    """The pauses between one server's attempts, which double until a connection lasts.

    To be connected is not enough: a server that dies as soon as its tools are listed would
    be started again at once, for ever. Pauses vary by a fifth, so that servers which
    failed together are not tried together.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:  # noqa: S311 - spreads retries, guards nothing
        self._chance = chance
        self._delay_s = FIRST_RETRY_S
        self._short_connections = 0

    def lost(self, lasted_s: float) -> bool:
        """Records the end of a connection; returns whether the next one may well last."""
        if lasted_s >= LASTING_S:
            self._delay_s, self._short_connections = FIRST_RETRY_S, 0
        else:
            self._short_connections += 1
        return self._short_connections <= 1

    def pause(self) -> float:
        """Returns how long to wait before the next attempt, in seconds."""
        delay_s, self._delay_s = self._delay_s, min(LAST_RETRY_S, self._delay_s * 2)
        return delay_s * (0.8 + 0.4 * self._chance())
