"""Reads files below one folder and nowhere else, even while the folder is being changed.

A path is opened one component after the other, each relative to the directory
that was opened before it, and no component may be a symbolic link (``openat``
with ``O_NOFOLLOW``). The file that is checked is thus the one that is read: there is no moment
between the check and the opening in which a link could be put there.
"""

import contextlib
import errno
import os
import signal
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec

from toolscript.errors import SkillError
from toolscript.text.display import printable

if sys.platform == "linux":
    import fcntl

MAX_FILE_BYTES = 1024 * 1024
"""A larger file is refused without being read."""
MAX_DEPTH = 16
"""The deepest level of folders below the root."""
MAX_ENTRIES = 100_000
"""The largest number of names below one root."""
QUIET_S = 0.05
"""How long a file must not have changed before it is read: the clock of a file system ticks
every few milliseconds, and a single write takes time after it has set the time of change."""
_ATTEMPTS = 20
_SHOWN = 200
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = _DIRECTORY | _NO_FOLLOW
_FILE = (
    os.O_RDONLY
    | _NO_FOLLOW
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO opens at once, and is then refused
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_ABLE = bool(_NO_FOLLOW) and os.open in os.supports_dir_fd

Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Identifies one state of a file: device, inode, size, both times of change."""


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text, and the state it was read in."""

    text: str
    stamp: Stamp


class FileEntry(msgspec.Struct, frozen=True, gc=False):
    """A regular file below the root, unread."""

    path: str
    """Relative to the root, with ``/``."""
    stamp: Stamp

    @property
    def size(self) -> int:
        """In bytes."""
        return self.stamp[2]


class ConfinedReader:
    """One folder. Holds nothing open between calls; the folder may come and go.

    The path of the folder itself may contain symbolic links. Raises `SkillError` if
    the system cannot open a file relative to a directory.
    """

    def __init__(self, root: Path, most: int = MAX_ENTRIES) -> None:
        if not _ABLE:
            raise SkillError(
                "skills cannot be read safely on this system: it has no openat with O_NOFOLLOW"
            )
        self.root = root
        self._most = most

    def read(self, path: str) -> FileText:
        """Returns the text of a file; ``path`` is relative to the root.

        Raises `SkillError` for a path that leads or points elsewhere, for what
        the walk leaves out, is no regular file, is too large, is no UTF-8 text,
        cannot be read, or changes while it is read. Nothing outside the root is
        ever opened.
        """
        data, stamp = self.read_bytes(path)
        return FileText(_decode(path, data), stamp)

    def read_bytes(self, path: str) -> tuple[bytes, Stamp]:
        """Returns a file as it is, which need not be text; see `read`."""
        parts = _parts(path)
        with _refusing(path):
            for _ in range(_ATTEMPTS):
                content = self._read_once(path, parts)
                if content is not None:
                    return content
                time.sleep(QUIET_S)
        told = f"{_display(path)} changes while it is read; try again when it is whole"
        raise SkillError(told, passing=True)

    def walk(self) -> "Walk":
        """Returns every regular file below the root; symbolic links are not followed.

        Names that begin with a dot, what tools keep for themselves
        (``node_modules``, ``__pycache__``), and files that have another name
        somewhere, a hard link, are left out. Raises `SkillError`
        if the root cannot be opened.
        """
        walk = Walk(self._most)
        with _refusing(str(self.root)):
            folders = self._list([], walk)
        for parts in folders:  # which grows on the way
            shown = _display("/".join(parts))
            if len(parts) > MAX_DEPTH:
                walk.problems.append(f"{shown} is nested too deeply to be looked into")
                continue
            try:
                folders += self._list(parts, walk)
            except OSError as error:
                if error.errno != errno.ENOENT:  # gone by now
                    walk.problems.append(f"{shown} {_reason(error)}")
        walk.files.sort(key=lambda found: found.path)
        return walk

    def _list(self, parts: list[str], walk: "Walk") -> list[list[str]]:
        """Add the files of one folder to the walk; returns the folders in it."""
        folders: list[list[str]] = []
        with _open(self.root, parts, _FOLDER) as folder, os.scandir(folder) as entries:
            for entry in entries:
                if _is_left_out(entry.name) or walk.is_over():
                    continue
                path = "/".join([*parts, entry.name])
                if entry.name != entry.name.encode(errors="replace").decode():
                    walk.problems.append(f"{_display(path)} has a name that is no UTF-8; rename it")
                    continue
                with contextlib.suppress(OSError):
                    if entry.is_symlink():
                        walk.problems.append(
                            f"{_display(path)} is a symbolic link; it is not followed"
                        )
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append([*parts, entry.name])
                    elif entry.is_file(follow_symlinks=False):
                        walk.add(path, entry.stat(follow_symlinks=False))
        return folders

    def _read_once(self, path: str, parts: list[str]) -> tuple[bytes, Stamp] | None:
        """Returns the content; None if the file has changed just now, or during the read."""
        with _open(self.root, parts, _FILE) as descriptor:
            before = os.fstat(descriptor)
            _check(path, before)
            if _is_being_written(descriptor):
                return None
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_FILE_BYTES + 1)
            after = os.fstat(descriptor)
        if stamp_of(before) != stamp_of(after) or len(data) != after.st_size or _young(after):
            return None
        return data, stamp_of(after)


class Walk:
    """The files below a root, and problems on the way."""

    def __init__(self, most: int) -> None:
        self.most = most
        """The largest number of names to look at."""
        self.files: list[FileEntry] = []
        self.problems: list[str] = []
        """Why files were left out that might be skills, a line each."""
        self.seen = 0

    def is_over(self) -> bool:
        """Count one more name; returns whether these are too many, which is said once."""
        self.seen += 1
        if self.seen == self.most + 1:
            self.problems.append(f"there are more than {self.most} files; the rest is left out")
        return self.seen > self.most

    def add(self, path: str, status: os.stat_result) -> None:
        """Add a regular file, unless it has another name somewhere."""
        if status.st_nlink > 1:
            self.problems.append(f"{_display(path)} {_LINKED}")
        else:
            self.files.append(FileEntry(path, stamp_of(status)))


def relative(path: str) -> str:
    """Returns the one spelling of a path that `ConfinedReader.read` takes; raises `SkillError`."""
    return "/".join(_parts(path))


def missing(path: str) -> SkillError:
    """Returns the error of `ConfinedReader.read` if there is no such file."""
    return SkillError(f"{_display(path)} {_REASONS[errno.ENOENT]}")


def stamp_of(status: os.stat_result) -> Stamp:
    """See `Stamp`."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_size, *times)


def _is_being_written(descriptor: int) -> bool:
    """Returns whether a program has this file open to write, if the system can tell.

    A write sets the times when it begins, so they do not show one that is interrupted midway.
    Programs that open the file to write wait from here on until the descriptor is closed.
    """
    if sys.platform == "linux":
        try:
            # The signal for them, of which nothing is needed. SIGIO would end this process.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
        except OSError:  # another user's file, or a file system without leases
            return False
    return False


def _young(status: os.stat_result) -> bool:
    """Whether the file was changed so lately that another change may leave the same times."""
    age = time.time() - status.st_ctime_ns / 1e9
    return 0 <= age < QUIET_S


def _parts(path: str) -> list[str]:
    """The components of a relative path; whatever could lead elsewhere is refused as text."""
    if "\0" in path:
        raise SkillError(f"{_display(path)} contains a NUL character; give a relative path")
    if not path.strip():
        raise SkillError("the path is empty; give one relative to the sandbox")
    if path.startswith("/") or os.path.isabs(path):  # noqa: PTH117 - of text, not of a file here
        raise SkillError(f"{_display(path)} is absolute; give a path relative to the sandbox")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise SkillError(f"{_display(path)} contains '..'; nothing above the sandbox is read")
    if not parts:
        raise SkillError(f"{_display(path)} is the sandbox itself; name a file in it")
    if any(map(_is_left_out, parts)):
        raise SkillError(
            f"{_display(path)} is hidden or a tool's own; names that begin with a dot, and "
            f"{', '.join(sorted(_OTHERS))}, are not read"
        )
    return parts


@contextmanager
def _open(root: Path, parts: list[str], flags: int) -> Generator[int]:
    """The last component, opened; every directory on the way is held only for the next step."""
    descriptor = os.open(root, _DIRECTORY)
    try:
        for number, part in enumerate(parts, 1):
            how = flags if number == len(parts) else _FOLDER
            below = os.open(part, how, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _refusing(path: str) -> Generator[None]:
    """Returns a refusal of the system as one clear line."""
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        told = f"{_display(path)} {_reason(error)}"
        raise SkillError(told, passing=isinstance(error, OSError)) from None


_REASONS = {
    errno.ENOENT: "does not exist",
    errno.ELOOP: "is a symbolic link, or lies behind one; links are not followed",
    errno.EMLINK: "is a symbolic link, or lies behind one; links are not followed",
    errno.EACCES: "may not be read; change its permissions",
    errno.EPERM: "may not be read; change its permissions",
    errno.ENXIO: "is no regular file",
    errno.ENAMETOOLONG: "is longer than a name of a file can be",
}


def _reason(error: OSError | UnicodeEncodeError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "is no name that a file can have"
    if error.errno == errno.ENOTDIR:
        # Linux says this, too, of a link that stands where a directory should.
        return "lies behind something that is no folder, or is a symbolic link"
    return _REASONS.get(error.errno or 0, f"cannot be read: {error.strerror or error}")


def _check(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SkillError(f"{_display(path)} is {_kind(status.st_mode)}; expected a text file")
    if status.st_size > MAX_FILE_BYTES:
        raise SkillError(
            f"{_display(path)} has {status.st_size} bytes; at most {MAX_FILE_BYTES} are read"
        )
    if status.st_nlink > 1:
        raise SkillError(f"{_display(path)} {_LINKED}")


_LINKED = "has another name elsewhere (a hard link); it is not read, put a copy there"


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def _decode(path: str, data: bytes) -> str:
    """Returns a file as text; raises `SkillError` if it is none."""
    if b"\0" in data:
        raise SkillError(f"{_display(path)} is binary (it has a NUL byte); expected UTF-8 text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise SkillError(
            f"{_display(path)} is no UTF-8: byte 0x{byte:02x} at {error.start}; save it as UTF-8"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


_OTHERS = frozenset({"node_modules", "__pycache__", "venv"})


def _is_left_out(name: str) -> bool:
    """Returns whether a file of this name, or a folder with all its files, is left out."""
    return name.startswith(".") or name in _OTHERS


def _display(path: str) -> str:
    return repr(printable(path.encode("utf-8", "replace").decode(), _SHOWN))
