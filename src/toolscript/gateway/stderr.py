"""What a server says on standard error: the end of it in memory, and a file that stays short."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from toolscript.files import open_private

log = logging.getLogger(__name__)
MAX_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 2000


class ErrorLog:
    """One server's standard error. The file is for people: nothing depends on it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._tail = b""
        self._warned = False

    @contextmanager
    def opened(self) -> Generator[None]:
        """Begin anew, for one run of the server."""
        self._tail = b""
        try:
            self._file = open_private(self._path)
        except OSError as error:
            self._give_up(error)
        try:
            yield
        finally:
            self._close()

    def write(self, data: bytes) -> None:
        """Take what the server has written."""
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        self.make_room(len(data))
        if self._file:
            try:
                os.write(self._file.fileno(), data)
            except OSError as error:
                self._give_up(error)

    def make_room(self, size: int = 0) -> None:
        """Start the file over where it would grow too long."""
        if self._file:
            with suppress(OSError):
                if os.fstat(self._file.fileno()).st_size + size > MAX_BYTES:
                    os.ftruncate(self._file.fileno(), 0)

    @contextmanager
    def handed_over(self) -> Generator[TextIO]:
        """The file, for a server that writes into it by itself, as on Windows.

        There nobody can take the name of an open file away, so what is read
        afterwards is this server's.
        """
        if not self._file:
            with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
                yield nowhere
            return
        try:
            yield self._file
        finally:
            with suppress(OSError):
                self._tail = self._path.read_bytes()[-_TAIL_BYTES:]

    @property
    def last_line(self) -> str:
        """The last line that says something."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")

    def _give_up(self, error: OSError) -> None:
        self._close()
        if not self._warned:
            log.warning("a server's standard error is not kept in %s: %s", self._path, error)
        self._warned = True

    def _close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
