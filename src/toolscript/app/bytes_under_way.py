"""Counts the memory that callers make a gateway take: the bytes of all that is under way for them.

Whatever door they come by, the bodies of requests and the calls of scripts share one room.
"""

from collections import Counter

MAX_BYTES, MAX_OF_HOLDER = 64 * 2**20, 32 * 2**20
"""The most bytes of all callers, and of one."""


class BytesUnderWay:
    """The bytes of each holder that are not done with. For the event loop alone."""

    def __init__(self, most: int = MAX_BYTES, most_of_holder: int = MAX_OF_HOLDER) -> None:
        self._most, self._most_of_holder = most, most_of_holder
        self._of_holder = Counter[str]()
        self.total = 0
        """The bytes of all holders."""

    def add(self, holder: str, size: int) -> bool:
        """Counts bytes, whose number is negative once they are done with; returns whether all fit.

        Bytes that do not fit are counted, too: their holder takes them back.
        """
        self.total += size
        self._of_holder[holder] += size
        fits = self.total <= self._most and self._of_holder[holder] <= self._most_of_holder
        if not self._of_holder[holder]:
            del self._of_holder[holder]
        return fits
