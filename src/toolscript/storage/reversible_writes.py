"""Changes other programs' files so that each change can be undone exactly.

Before the first file is touched, a folder of the data directory holds the former and the new bytes
of every file, and then a journal with their paths. So a process that is killed at any moment
leaves each file whole, as it was or as it should be, and a journal that says which.
"""

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolscript.storage import atomic_files
from toolscript.storage.atomic_files import locked, make_private, sync_directory

_JOURNAL = "journal.json"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file's former and new content; the former is None for a file that is not there."""

    path: Path
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Restored:
    """A file that should be as it was before."""

    path: Path
    reason: str = ""
    """Why it is not; empty if it is."""
    expected: bytes = b""
    """The content that was written, if the file holds another one now."""


def content(path: Path) -> bytes | None:
    """Returns the bytes of a file; None if there is none. Raises `OSError`."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def refusal(path: Path) -> str:
    """Returns why a file is not to be replaced; empty if it may be, or is not there."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "it is no file"
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return "it belongs to another user"
    return "" if status.st_mode & stat.S_IWUSR else "it is read-only"


def write_all(
    folder: Path, changes: Sequence[FileChange], needed: Path | None = None
) -> Iterator[tuple[FileChange, str]]:
    """Writes files in their order, and yields each with the reason if it was not written.

    A file is not written if it has changed meanwhile, or for a reason that `refusal` gives.

    Args:
        folder: Keeps the journals; see `restore_all`.
        changes: The files.
        needed: The file on which those behind it rely: without it they are not written, either.

    Raises:
        OSError: The journal cannot be written; no file is changed then.
    """
    with locked(folder / ".lock"):
        journal = folder / f"{time.time_ns():020d}"
        make_private(journal)
        for number, change in enumerate(changes):
            if change.before is not None:
                atomic_files.write_atomically(journal / f"{number}.before", change.before)
            atomic_files.write_atomically(journal / f"{number}.after", change.after)
        paths = [os.fsdecode(change.path) for change in changes]
        atomic_files.write_atomically(journal / _JOURNAL, json.dumps(paths).encode())
        sync_directory(journal)
        sync_directory(folder)
        for change in changes:
            reason = replace_file(change.path, change.before, change.after)
            yield change, reason
            if reason and change.path == needed:
                return


def restore_all(folder: Path) -> Iterator[Restored]:
    """Puts every file back as it was before the first journal; yields each, the newest first.

    A file that is no longer as it was written stays, and so does its journal.
    """
    with locked(folder / ".lock"):
        for journal in sorted(folder.glob("[0-9]*"), reverse=True):
            paths = content(journal / _JOURNAL)
            results = [_restore(journal, *each) for each in enumerate(json.loads(paths or b"[]"))]
            yield from results
            if not any(result.reason for result in results):
                (journal / _JOURNAL).unlink(missing_ok=True)  # so the rest is never half a journal
                shutil.rmtree(journal)


def _restore(journal: Path, number: int, name: str) -> Restored:
    path, before = Path(name), content(journal / f"{number}.before")
    after = (journal / f"{number}.after").read_bytes()
    try:
        now = content(path)
        if now == before:
            return Restored(path)
        if now != after:
            return Restored(path, "it is no longer as it was written", after)
        if before is not None:
            return Restored(path, replace_file(path, after, before))
        reason = refusal(path)
        if not reason:
            path.unlink()
        return Restored(path, reason)
    except OSError as error:
        return Restored(path, error.strerror or str(error))


def replace_file(path: Path, before: bytes | None, after: bytes) -> str:
    """Replaces a file's content and keeps its mode; returns why it was left as it is."""
    if reason := refusal(path):
        return reason
    try:
        make_private(path.parent)
        with atomic_files.replacing(path) as temporary:
            with temporary.open("wb") as file:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            if before is not None:
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            _check_content(path, before)
        sync_directory(path.parent)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _check_content(path: Path, expected: bytes | None) -> None:
    if content(path) != expected:
        raise OSError(errno.ESTALE, "it has changed meanwhile; run the command again")
