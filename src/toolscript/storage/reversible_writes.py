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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from toolscript.errors import ConfigSyntaxError
from toolscript.storage import atomic_files
from toolscript.storage.atomic_files import locked, make_private, sync_directory

_JOURNAL = "journal.json"
_NEEDED = "needed"
TakeBack: TypeAlias = Callable[[Path, bytes | None, bytes, bytes], bytes | None]
"""Returns the content of a file as it is now without the change from its former to its new one;
None if nothing else is in it. It raises `ConfigSyntaxError` if that cannot be told."""


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
    has_more: bool = False
    """Whether it keeps later changes of another program."""
    former: Path | None = None
    """The file with the former content, if it has one and is not restored."""


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
        if needed is not None:
            atomic_files.write_atomically(journal / _NEEDED, os.fsencode(needed))
        paths = [os.fsdecode(change.path) for change in changes]
        atomic_files.write_atomically(journal / _JOURNAL, json.dumps(paths).encode())
        sync_directory(journal)
        sync_directory(folder)
        for change in changes:
            reason = replace_file(change.path, change.before, change.after)
            yield change, reason
            if reason and change.path == needed:
                return


def restore_all(folder: Path, take_back: TakeBack) -> Iterator[Restored]:
    """Puts every file back as it was before the first journal; yields each, the newest first.

    A file that is no longer as it was written keeps its later changes, if ``take_back`` can
    tell that apart. Else it stays, and so do the files that `write_all` was told to be needed, and
    the journals of all of them.
    """
    with locked(folder / ".lock"):
        journals = sorted(folder.glob("[0-9]*"), reverse=True)
        changes = [each for journal in journals for each in _read_journal(journal)]
        stuck: dict[Path, Restored] = {}
        kept: set[Path] = set()
        for journal, number, path, is_needed in sorted(changes, key=lambda change: change[-1]):
            if path in stuck:  # an older change of it comes after the newer one
                result = stuck[path]
            elif is_needed and stuck:
                result = Restored(path, "files that stay need it")
            else:
                result = _restore(journal, number, path, take_back)
            yield result
            if result.reason:
                stuck[path] = result
                kept.add(journal)
        for journal in journals:
            if journal not in kept:
                (journal / _JOURNAL).unlink(missing_ok=True)  # so the rest is never half a journal
                shutil.rmtree(journal)


def _read_journal(journal: Path) -> Iterator[tuple[Path, int, Path, bool]]:
    """Yields a journal's files with their numbers, and whether the others need them."""
    needed = content(journal / _NEEDED)
    for number, name in enumerate(json.loads(content(journal / _JOURNAL) or b"[]")):
        yield journal, number, Path(name), os.fsencode(name) == needed


def _restore(journal: Path, number: int, path: Path, take_back: TakeBack) -> Restored:
    place = journal / f"{number}.before"
    before, after = content(place), (journal / f"{number}.after").read_bytes()
    former = place if before is not None else None
    try:
        now = content(path)
        has_more = now is not None and now not in {before, after}
        then = take_back(path, before, after, now or b"") if has_more else before
        if now == then:
            return Restored(path, has_more=has_more)
        reason = refusal(path) if then is None else replace_file(path, now, then)
        if then is None and not reason:
            path.unlink()
        return Restored(path, reason, has_more, former if reason else None)
    except ConfigSyntaxError as error:
        return Restored(path, str(error), former=former)
    except OSError as error:
        return Restored(path, error.strerror or str(error), former=former)


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
