"""Keeps a server's standard error: its end in memory, the rest in two short files."""

import logging
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from toolscript.storage.atomic_files import file_name, open_private, write_failure
from toolscript.text.redaction import redact_known

log = logging.getLogger(__name__)
MAX_BYTES = 4 * 1024 * 1024
MAX_LINE_BYTES = 1024 * 1024
"""Bytes of a line that wait for its end, so that no half of a hidden text is written."""
_TAIL_BYTES = 8192
_SHOWN_BYTES = 256 * 1024
_ERROR = re.compile(r"\w*Error\b")
_ELSEWHERE = re.compile(
    r"(?i)(?:(?:for (?:more )?(?:information|details|help)|see|try|run|use|type)\b[^.:]*\bhelp\b.*"
    r"|usage: .*|npm notice.*|(?:npm \S+ )?a complete log of this run .*"
    r"|note: run with .?RUST_BACKTRACE.*)"
)
"""A line that has no reason, but points to one elsewhere, or to help."""
_NPM = re.compile(r"npm (?:error|ERR!) (?!(?:code|errno|syscall|path|dest) )")
"""The first such line has npm's reason; advice follows it."""
_UNSHOWN_CHARS = 4096
"""The hidden part of a line that begins before the tail: it may begin with half a secret."""


def last_lines(folder: Path, server: str, count: int) -> tuple[Path, list[str]]:
    """Returns the log that a server has written last, and the last lines of its two files."""
    name = file_name(server)
    logs = [folder / f"{name}.log", *folder.glob(f"{name}.{'[0-9a-f]' * 8}.log")]  # of projects
    path = max(filter(Path.is_file, logs), key=lambda each: each.stat().st_mtime, default=logs[0])
    return path, [*_lines(Path(f"{path}.1")), *_lines(path)][-count:]


def _lines(path: Path) -> list[str]:
    data = path.read_bytes() if path.is_file() else b""
    lines = data[-_SHOWN_BYTES:].decode("utf-8", "replace").splitlines()
    return lines[1:] if len(data) > _SHOWN_BYTES else lines  # half a secret, perhaps


class StderrLog:
    """One server's standard error. Only people read the files.

    A new run and a full file begin a new file. The previous one stays beside it, so that
    the last words of a dead server can be read after it has been started again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._tail = b""
        self._partial = b""
        self._warned = False
        self.hidden: tuple[str, ...] = ()
        """Texts that are blanked in the file: secrets that are in no file but that of the store."""

    @contextmanager
    def opened(self) -> Generator[None]:
        """Begins a new file for one run of the server, and closes it after the block."""
        self._tail = self._partial = b""
        self._begin()
        try:
            yield
        finally:
            self._append(self._whole_lines(b"\n") if self._partial else b"")
            self._close()

    def write(self, data: bytes) -> None:
        """Appends output of the server."""
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        self._append(self._whole_lines(data) if self.hidden else data)

    def _whole_lines(self, data: bytes) -> bytes:
        """Returns the lines that are whole now, without the hidden texts; keeps the rest."""
        data = self._partial + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) > MAX_LINE_BYTES:
            data = self._blank(data)
            end = max(0, len(data) - MAX_LINE_BYTES // 2)  # the end may be half a secret
        self._partial = data[end:]
        return self._blank(data[:end])

    def _blank(self, data: bytes) -> bytes:
        return redact_known([data.decode("utf-8", "replace")], self.hidden)[0].encode()

    def _append(self, data: bytes) -> None:
        self.make_room(len(data))
        if self._file:
            try:
                os.write(self._file.fileno(), data)
            except OSError as error:
                self._give_up(error)

    def make_room(self, size: int = 0) -> None:
        """Begins a new file if so many bytes more would make this one too long."""
        if not self._file:
            return
        with suppress(OSError):
            if os.fstat(self._file.fileno()).st_size + size <= MAX_BYTES:
                return
            if sys.platform == "win32":  # the server itself has it open
                os.ftruncate(self._file.fileno(), 0)
                return
        self._begin()

    @contextmanager
    def handed_over(self) -> Generator[TextIO]:
        """Yields the file for a server that writes into it itself, as on Windows."""
        if not self._file or self.hidden:
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
        """The last line that is not blank and does not only point elsewhere.

        Of a crash of Node.js it is the line with the error, of npm the first with its reason.
        """
        lines = self._tail.decode("utf-8", "replace").splitlines() or [""]
        if len(self._tail) == _TAIL_BYTES:
            lines[0] = lines[0][_UNSHOWN_CHARS:]
        lines = [line for line in lines if line.strip()] or [""]
        lines = [line for line in lines if not _ELSEWHERE.fullmatch(line.strip())] or lines
        if lines[-1].startswith("Node.js v"):  # which ends a trace
            lines = list(filter(_ERROR.match, lines)) or lines
        elif lines[-1].startswith("npm "):
            lines = list(filter(_NPM.match, lines))[:1] or lines
        return lines[-1]

    def _begin(self) -> None:
        self._close()
        with suppress(OSError):  # there is none yet, or opening the new one fails as well
            self._path.replace(f"{self._path}.1")
        try:
            self._file = open_private(self._path)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._close()
        if not self._warned:
            message = "a server's standard error is not kept in %s: %s"
            log.warning(message, self._path, error, extra=write_failure(error))
        self._warned = True

    def _close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None
