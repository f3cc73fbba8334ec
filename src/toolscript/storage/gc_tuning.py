"""What is told to those that look after a process' memory."""

import ctypes
import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""As ``malloc.h`` has them."""
_KEPT_BYTES = 65536


def give_back() -> None:
    """Have the C library hand freed memory back to the system at once, where it is glibc.

    Indexing and loading a model need more than searching does afterwards; by
    itself the library keeps some 17 of 177 MiB for later.
    """
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        for parameter in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            libc.mallopt(parameter, _KEPT_BYTES)


def set_aside() -> None:
    """Tell the garbage collector that what is there by now stays.

    Modules and a catalogue are 100,000 objects and more. To look through them
    takes the collector 80 ms each time, in which nothing else runs.
    """
    gc.freeze()


class _Collector:
    """The garbage collector, off as long as somebody wants that: threads may overlap."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pauses = 0
        self._was_on = False

    @contextmanager
    def paused(self) -> Generator[None]:
        with self._lock:
            if not self._pauses:
                self._was_on = gc.isenabled()
                gc.disable()
            self._pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                if self._was_on and not self._pauses:
                    gc.enable()


without_collecting = _Collector().paused
"""Nothing is looked at for garbage: of what is made here, all is to stay.

Python looks through all that it has whenever there is a quarter more of it,
which is a fifth of the time that a large corpus takes.
"""
