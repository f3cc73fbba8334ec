"""How far a download is: written by the thread that loads, read by whoever waits."""

import threading


class CancelledError(Exception):
    """The one who waited has given up."""


class Progress:
    """Bytes done and to be done of what is downloaded now. Safe to read from any thread."""

    def __init__(self) -> None:
        self.what = ""
        """What is downloaded; empty when nothing is."""
        self.done_bytes = 0
        self.total_bytes = 0
        """0 as long as it is not known."""
        self.came_bytes = 0
        """Of those done, what has come since the beginning."""
        self.steps = 0
        """Grows with every sign of life."""
        self._cancelled = threading.Event()

    def begin(self, what: str) -> None:
        """Something is to be downloaded."""
        self.what, self.done_bytes, self.total_bytes, self.came_bytes = what, 0, 0, 0
        self._cancelled.clear()

    def expect(self, total_bytes: int) -> None:
        """So many bytes more."""
        self.total_bytes += total_bytes

    def resume(self, size: int) -> None:
        """So many bytes were here already; negative: they are of no use."""
        self.done_bytes += size

    def advance(self, size: int = 0) -> None:
        """So many bytes came, or just an answer; raises `CancelledError` when nobody waits."""
        if self._cancelled.is_set():
            raise CancelledError
        self.done_bytes += size
        self.came_bytes += size
        self.steps += 1

    def end(self) -> None:
        """There is nothing to wait for any more."""
        self.what = ""

    def cancel(self) -> None:
        """Stop whoever works at it, at the next step."""
        self._cancelled.set()
