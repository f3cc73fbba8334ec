"""Stores results that are too long for a model, each for its caller and for an hour."""

import secrets
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import IO, NamedTuple

from toolscript.errors import UnknownNameError
from toolscript.text.display import printable

LIFETIME_S = 3600
MAX_KEPT = 64
"""Results that are kept, and `MAX_PER_CALLER` of one caller; the oldest goes first."""
MAX_PER_CALLER = 16
MAX_BYTES = 256 * 1024 * 1024
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_HANDLE_CHARS = 12


class _Kept(NamedTuple):
    caller: Hashable
    until: float
    size: int
    file: IO[bytes]


class ResultStore:
    """Results by handle, each for the caller that it was made for, and for an hour.

    They are in temporary files without a name, which end with the process.

    Args:
        now: Returns the time, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = Lock()
        """Results are added in threads."""

    def add(self, caller: Hashable, content: bytes) -> str:
        """Keeps a result; returns its handle. Raises `OSError` if it cannot be written."""
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it is forgotten
        file.write(content)
        file.flush()
        handle = "".join(secrets.choice(_ALPHABET) for _ in range(_HANDLE_CHARS))
        with self._lock:
            self._kept[handle] = _Kept(caller, self._now() + LIFETIME_S, len(content), file)
            self._forget()
        return handle

    def get(self, caller: Hashable, handle: str) -> bytes:
        """Returns a result; raises `UnknownNameError` for a handle that the caller has not got."""
        with self._lock:
            self._forget()
            kept = self._kept.get(handle)
            if kept is not None and kept.caller == caller:
                kept.file.seek(0)
                return kept.file.read()
        raise UnknownNameError(
            f"no result {printable(handle, 40)!r} is kept here; results are kept for an hour, for "
            "the session that called the tool: call it again"
        )

    def close(self) -> None:
        """Forgets every result."""
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].file.close()

    def _forget(self) -> None:
        """Drops the results that are too old or too many."""
        kept = self._kept
        for handle in [handle for handle, each in kept.items() if each.until <= self._now()]:
            kept.pop(handle).file.close()
        newest = next(reversed(kept.values()), None)
        of_caller = [h for h, each in kept.items() if newest and each.caller == newest.caller]
        for handle in of_caller[:-MAX_PER_CALLER]:
            kept.pop(handle).file.close()
        while len(kept) > MAX_KEPT or sum(each.size for each in kept.values()) > MAX_BYTES:
            kept.popitem(last=False)[1].file.close()
