"""Writes files atomically, and checks who owns the data directory."""

import contextlib
import errno
import functools
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from toolscript.errors import DataDirectoryError, DecisionStorageError

_NAME_BYTES = 200
"""The longest name of a file; file systems allow 255, of which the caller may add some."""

_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}(-journal)?")
"""The name of a temporary file: see `tempfile.mkstemp`. SQLite puts a journal beside it."""
_ABANDONED_S = 3600.0
"""A temporary file that was last written so long ago has no writer any more."""


def file_name(text: str) -> str:
    """Returns a file name for a text: percent-encoded, cut and with a digest if too long."""
    name = quote(text, safe=" ")
    if len(name) <= _NAME_BYTES:
        return name
    return f"{name[:_NAME_BYTES]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def expanded(text: str) -> Path:
    """Returns the path of a text; a leading ``~`` is replaced if that home exists."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def resolved(path: Path) -> Path:
    """Returns the path without links, or the absolute path if it cannot be resolved."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return path.absolute()


@contextlib.contextmanager
def storing_decision() -> Generator[None]:
    """Raises `DecisionStorageError` if the block raises `OSError`."""
    try:
        yield
    except OSError as error:
        where = f" to {error.filename}" if error.filename else ""
        raise DecisionStorageError(
            f"the decision cannot be written{where}: {error.strerror or error}; nothing has changed"
        ) from None


def is_file(path: Path) -> bool:
    """Whether a file is there; False if it may not be looked at."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_dir(path: Path) -> bool:
    """Whether a directory is there; False if it may not be looked at."""
    try:
        return path.is_dir()
    except OSError:
        return False


def may_exist(path: Path) -> bool:
    """Whether a file is there, or may be there because its folder cannot be read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def stamp(paths: Iterable[Path]) -> str:
    """Returns 16 hex digits that change when one of the files is edited, added or deleted."""
    states: list[tuple[str, int, int]] = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            states.append((os.path.realpath(path), status.st_mtime_ns, status.st_size))
    return hashlib.sha256(repr(states).encode()).hexdigest()[:16]


def make_private(directory: Path) -> None:
    """Makes a directory, and missing ones above it, for their owner only; raises `OSError`."""
    missing = [d for d in (directory, *directory.parents) if not is_dir(d)]
    for path in reversed(missing):
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not is_dir(path):
                message = os.strerror(errno.ENOTDIR)
                raise NotADirectoryError(errno.ENOTDIR, message, str(path)) from None


def check_owner(data_dir: Path) -> None:
    """Raises `DataDirectoryError` for a directory in which another user may have put tokens.

    It has to belong to this user or to root, and so do the directories in it. Root
    may use another user's, as under sudo, unless everyone can write there.
    """
    if sys.platform == "win32":
        return
    try:
        status, inside = data_dir.stat(), [*data_dir.iterdir()]
    except OSError:
        return  # nothing can be read there either
    user = os.geteuid()
    trusted = {0, user}
    if user == 0 and not writable_by_all(status):
        trusted.add(status.st_uid)
    for path in (data_dir, *filter(is_dir, inside)):
        owner = status.st_uid if path is data_dir else path.lstat().st_uid
        if owner not in trusted:
            raise DataDirectoryError(
                f"{path} belongs to user {owner}, and you are user {user}: what is in it may be "
                "anything; choose a directory of your own with --data-dir, or change its owner"
            )


def writable_by_all(status: os.stat_result) -> bool:
    """Whether every user may rename the files in a directory."""
    return bool(status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX)


def write_failure(error: Exception) -> dict[str, str]:
    """Returns the ``extra`` of a log record about a file that cannot be written.

    It lets the log say once that no file can be: see `surfaces.server.logs`.
    """
    return {"write_failure": getattr(error, "strerror", None) or str(error)}


def open_private(path: Path) -> TextIO:
    """Opens a new, empty text file for appending that only its owner may read."""
    make_private(path.parent)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")


@contextlib.contextmanager
def locked(lock: Path, timeout_s: float = -1) -> Generator[None]:
    """Keeps other processes out of the block, by a lock file that only its owner may read.

    Waits for ``timeout_s`` seconds, or for ever if that is negative. Raises `OSError`:
    `TimeoutError` if another process holds the lock for longer.
    """
    import filelock  # noqa: PLC0415 - takes longer than most commands have

    make_private(lock.parent)
    # Another thread than the one that entered the block may leave it.
    with filelock.FileLock(lock, timeout=timeout_s, mode=0o600, thread_local=False):
        yield


def write_atomically(path: Path, data: bytes) -> os.stat_result:
    """Replaces ``path`` by ``data``, or leaves it as it was; returns the new file's status.

    The data is on the disk before the name points to it, and only the owner may
    read it. Raises `OSError` (a full disk, a read-only directory), which names
    ``path``, after deleting the temporary file.
    """
    try:
        make_private(path.parent)
        with replacing(path) as temporary, temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            return os.fstat(file.fileno())
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def sync_directory(directory: Path) -> None:
    """Has the new names in a directory outlive the machine's end, if the system can do that."""
    if sys.platform == "win32":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse it
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Makes an empty file beside ``path`` that takes its name at the end of the block.

    Only its owner may read it. If the block raises, it is deleted.
    """
    import tempfile  # noqa: PLC0415 - most commands write nothing, and it takes a while

    _delete_abandoned(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@functools.cache
def _delete_abandoned(directory: Path) -> None:
    """Delete, once in a process, the temporary files that killed writers have left."""
    for path in directory.glob(".*"):
        with contextlib.suppress(OSError):
            old = time.time() - path.stat().st_mtime > _ABANDONED_S
            if old and _TEMPORARY.fullmatch(path.name):
                path.unlink()
