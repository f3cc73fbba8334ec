"""How far a download is: written by the thread that loads a model, read by any other."""

import threading


class CancelledError(Exception):
    """The download was cancelled."""


class Progress:
    """Bytes done and to be done of the current download. Safe to read from any thread."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self.steps = 0
        """Grows whenever the hub answers or bytes come."""
        self.begin("")

    def begin(self, what: str) -> None:
        """Starts counting for a model's name."""
        self.what = what
        """The model's name; empty when nothing is downloaded."""
        self.done_bytes = self.total_bytes = 0
        """Bytes that have come; of all files, 0 until that is known."""
        self.streaming = False
        """Whether a file's bytes are coming."""
        self._cancelled.clear()

    def expect(self, total_bytes: int) -> None:
        """Adds to the bytes to be done."""
        self.total_bytes += total_bytes

    def advance(self, size_bytes: int = 0) -> None:
        """Adds received bytes, or notes an answer; raises `CancelledError` after `cancel`.

        A negative size takes bytes back.
        """
        if self._cancelled.is_set():
            raise CancelledError
        self.done_bytes += size_bytes
        self.steps += 1

    def end(self) -> None:
        """Says that nothing is downloaded any more."""
        self.what = ""

    def cancel(self) -> None:
        """Ends the download at its next step."""
        self._cancelled.set()
