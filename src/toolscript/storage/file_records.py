"""Stores each named value in its own file: the `Records` of a single machine."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from toolscript.storage.atomic_files import (
    locked,
    make_private,
    may_exist,
    stamp,
    sync_directory,
    write_atomically,
)
from toolscript.storage.base import LostRecordError


class FileRecords:
    """See `Records`. Holds nothing between calls.

    Args:
        directory: The folder of the files.
        suffix: The end of each file name, after the name of the value.
        marker: Returns the path of an empty file that remembers that there was a value, so that
            a file that is lost is no value that was never written. None remembers nothing.
    """

    def __init__(
        self, directory: Path, suffix: str = ".json", marker: Callable[[str], Path] | None = None
    ) -> None:
        self._directory = directory
        self._suffix = suffix
        self._marker = marker

    def path(self, name: str) -> Path:
        """Returns the file of a value."""
        return self._directory / f"{name}{self._suffix}"

    def location(self, name: str) -> str:
        """See `Records`."""
        return str(self.path(name))

    def read(self, name: str) -> bytes | None:
        """See `Records`."""
        try:
            content = self.path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            if self._marker is None or not may_exist(self._marker(name)):
                return None
            raise LostRecordError(f"{self.path(name)} is gone") from None
        with suppress(OSError):  # a kill may have come between file and marker
            self._mark(name)
        return content

    def was_written(self, name: str) -> bool:
        """See `Records`."""
        marked = self._marker is not None and may_exist(self._marker(name))
        return marked or may_exist(self.path(name))

    def write(self, name: str, content: bytes) -> None:
        """See `Records`."""
        write_atomically(self.path(name), content)
        sync_directory(self._directory)
        self._mark(name)

    def _mark(self, name: str) -> None:
        if self._marker is not None and not may_exist(marker := self._marker(name)):
            make_private(marker.parent)
            marker.touch(mode=0o600)
            sync_directory(marker.parent)

    def delete(self, name: str) -> bool:
        """See `Records`."""
        existed = self.path(name).exists()
        self.path(name).unlink(missing_ok=True)
        if existed:
            sync_directory(self._directory)
        if self._marker is not None:
            self._marker(name).unlink(missing_ok=True)
        return existed

    def names(self) -> list[str]:
        """See `Records`."""
        try:
            files = [path.name for path in self._directory.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        end = len(self._suffix)
        return sorted(n[:-end] for n in files if n.endswith(self._suffix) and n[0] != ".")

    def stamp(self, name: str) -> str:
        """See `Records`."""
        return stamp([self.path(name)])

    @contextmanager
    def locked(self, name: str, timeout_s: float = -1) -> Generator[None]:
        """See `Records`."""
        with locked(self.path(name).with_suffix(".lock"), timeout_s):
            yield
