"""When a server that cannot be reached, or does not stay, is tried again."""

FIRST_RETRY_S, LAST_RETRY_S = 0.5, 60.0
LASTING_S = 60.0
"""A connection that held this long counts as one that worked."""


class Backoff:
    """The pauses between one server's attempts, growing until a connection lasts.

    Being connected is not enough: a server that dies as soon as its tools are
    listed would be started again at once, for ever.
    """

    def __init__(self) -> None:
        self._delay = FIRST_RETRY_S
        self._brief = 0

    def lost(self, lasted_s: float) -> bool:
        """Note that a connection ended; whether there is hope that the next one lasts."""
        if lasted_s >= LASTING_S:
            self._delay, self._brief = FIRST_RETRY_S, 0
        else:
            self._brief += 1
        return self._brief <= 1

    def pause(self) -> float:
        """How long to wait before the next attempt, in seconds."""
        delay, self._delay = self._delay, min(LAST_RETRY_S, self._delay * 2)
        return delay
