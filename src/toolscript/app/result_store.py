"""Stores results that are too long for a model, each for its owner and for an hour.

A result is a file without a name in the data directory. On disk, because a gateway's memory must
not grow with its results, and ``/tmp`` is memory on many systems; without a name, because such a
file ends with its process, however that ends, and nobody else can open it.
"""

import os
import secrets
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, TypeAlias

from toolscript.errors import UnknownNameError
from toolscript.storage.atomic_files import make_private
from toolscript.text.display import printable
from toolscript.types import Grant

ResultOwner: TypeAlias = tuple[str, Grant]
"""The session (or the holder of a token) that a result is for, and the grant it had then."""
LIFETIME_S = 3600
MAX_STORED = 256
"""The number of results that are kept, and `MAX_PER_OWNER` of one owner; the oldest goes first."""
MAX_PER_OWNER = 64
MAX_BYTES = 256 * 1024 * 1024
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_HANDLE_CHARS = 12


@dataclass(frozen=True, slots=True)
class _Stored:
    until: float
    size: int
    file: IO[bytes]
    reading: Lock = field(default_factory=Lock)


class ResultStore:
    """Results by owner and handle. Any thread may call.

    Args:
        folder: The directory of the files, which is made when it is needed.
        now: Returns the time, in seconds.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._now = now
        self._stored: OrderedDict[tuple[ResultOwner, str], _Stored] = OrderedDict()
        self._lock = Lock()

    def add(self, owner: ResultOwner, content: bytes) -> str:
        """Stores a result; returns its handle. Raises `OSError` if it cannot be written."""
        make_private(self._folder)
        with ExitStack() as stack:
            file = stack.enter_context(tempfile.TemporaryFile(dir=self._folder))
            file.write(content)
            file.flush()
            stack.pop_all()
        handle = "".join(secrets.choice(_ALPHABET) for _ in range(_HANDLE_CHARS))
        with self._lock:
            self._stored[owner, handle] = _Stored(self._now() + LIFETIME_S, len(content), file)
            self._drop_outdated()
            of_owner = [key for key in self._stored if key[0] == owner]
            self._drop(of_owner[:-MAX_PER_OWNER])
            while len(self._stored) > MAX_STORED or self._size > MAX_BYTES:
                self._drop([next(iter(self._stored))])
        return handle

    def get(self, owner: ResultOwner, handle: str) -> bytes:
        """Returns a result; raises `UnknownNameError` for a handle that the owner has not got.

        A handle of another owner is looked up, and refused, as one that never was.
        """
        with self._lock:
            self._drop_outdated()
            stored = self._stored.get((owner, handle))
            # A descriptor of its own: the result may be dropped while it is read.
            descriptor = -1 if stored is None else os.dup(stored.file.fileno())
        if stored is None:
            raise UnknownNameError(
                f"no result {printable(handle, 40)!r} is kept here; results are kept for an hour, "
                "or until newer ones need their room, for the session that called the tool: call "
                "it again"
            )
        with os.fdopen(descriptor, "rb") as file, stored.reading:
            file.seek(0)
            return file.read()

    def end_session(self, session: str) -> None:
        """Drops the results of a session that has ended."""
        with self._lock:
            self._drop([key for key in self._stored if key[0][0] == session])

    def close(self) -> None:
        """Drops every result."""
        with self._lock:
            self._drop([*self._stored])

    @property
    def _size(self) -> int:
        return sum(stored.size for stored in self._stored.values())

    def _drop_outdated(self) -> None:
        now = self._now()
        self._drop([key for key, stored in self._stored.items() if stored.until <= now])

    def _drop(self, keys: Iterable[tuple[ResultOwner, str]]) -> None:
        for key in keys:
            self._stored.pop(key).file.close()
