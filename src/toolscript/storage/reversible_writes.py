"""Changes other programs' files so that each change can be undone exactly.

Before a file changes, a row about it is written into a record, and then its former bytes beside it.
So a process that is killed at any moment leaves each file whole, as it was or as it should be, and
a record with a row for every file that has changed, and for every backup.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from toolscript.errors import DataDirectoryError
from toolscript.storage import atomic_files
from toolscript.storage.atomic_files import locked, make_private, may_exist, sync_directory

HAS_CHANGED = "it has changed since setup wrote it"


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
    backup: Path | None = None
    """The file with its former content, if it had one."""


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    backup: str | None
    """The name of the file with the former content, beside it; None if there was no file."""
    before: str | None
    """The digest of the former content."""
    after: str
    is_needed: bool
    """Whether the other files need it."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rows: list[_Row]
    digest: str
    """That of the rows, so that a damaged record is none."""


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
    record: Path, changes: Sequence[FileChange], needed: Path | None = None
) -> Iterator[tuple[FileChange, str]]:
    """Writes files in their order, and yields each with the reason if it was not written.

    A file is not written if it has changed meanwhile, if its former content cannot be written
    beside it, or for a reason that `refusal` gives.

    Args:
        record: The file about the changes; see `restore_all`.
        changes: The files.
        needed: The file on which those behind it rely: without it they are not written, either.

    Raises:
        DataDirectoryError: The record is damaged; no file is changed then.
        OSError: The record cannot be written; this file and those behind it are not changed.
    """
    with locked(record.with_suffix(".lock")):
        rows = _read(record)
        for change in changes:
            reason = _write(record, rows, change, is_needed=change.path == needed)
            yield change, reason
            if reason and change.path == needed:
                return


def _write(record: Path, rows: list[_Row], change: FileChange, *, is_needed: bool) -> str:
    path, before = change.path, change.before
    if reason := refusal(path):
        return reason
    names = (f"{path.name}.bak{number}" for number in ("", *range(2, 9999)))
    backup = next(name for name in names if not may_exist(path.with_name(name)))
    name = None if before is None else backup
    row = _Row(os.fsdecode(path), name, _digest(before), _hash(change.after), is_needed)
    rows.append(row)
    _store(record, rows)
    try:
        if before is not None:
            with open(path.with_name(backup), "xb", opener=partial(os.open, mode=0o600)) as file:
                file.write(before)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(path.parent)
        reason = replace_file(path, before, change.after)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        _drop(record, rows, row)
    return reason


def restore_all(record: Path) -> Iterator[Restored]:
    """Puts files back as they were before, the newest change first; yields each with the result.

    A file that is no longer as it was written stays, and so do the files that `write_all` was told
    to be needed, and the rows of all of them.

    Raises:
        DataDirectoryError: The record is damaged; no file is changed then.
        OSError: The record cannot be written.
    """
    with locked(record.with_suffix(".lock")):
        rows = _read(record)
        results: dict[str, Restored] = {}
        stuck: set[str] = set()
        newest_first = rows[::-1]
        for row in sorted(newest_first, key=lambda row: row.is_needed):
            if row.path in stuck:  # an older change of it comes after the newer one
                continue
            path = Path(row.path)
            backup = path.with_name(row.backup) if row.backup else None
            reason = "files that stay need it" if row.is_needed and stuck else _restore(row, backup)
            if reason:
                stuck.add(row.path)
            else:
                _drop(record, rows, row)
            results[row.path] = Restored(path, reason, backup)
        yield from results.values()


def _restore(row: _Row, backup: Path | None) -> str:
    """Puts a file back, if it is as it was written or gone; returns why it stays."""
    path = Path(row.path)
    try:
        now = content(path)
        if _digest(now) == row.before:
            return ""
        before = content(backup) if backup else None
        if _digest(before) != row.before:
            return f"its former content is not in {backup} any more"
        if now is not None and _digest(now) != row.after:
            return HAS_CHANGED
        if before is not None:
            return replace_file(path, now, before)
        reason = refusal(path)
        if not reason:
            path.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return reason


def _drop(record: Path, rows: list[_Row], row: _Row) -> None:
    """Deletes a row and its backup."""
    if row.backup:
        Path(row.path).with_name(row.backup).unlink(missing_ok=True)
    rows.remove(row)
    _store(record, rows)


def _read(record: Path) -> list[_Row]:
    data = content(record)
    if data is None:
        return []
    try:
        read = msgspec.convert(json.loads(data), _Record)
        if _digest_rows(read.rows) == read.digest:
            return read.rows
    except (ValueError, RecursionError):
        pass
    raise DataDirectoryError(
        f"{record} is damaged, so no file is changed; the former content of each file is in "
        "FILE.bak beside it: copy these back, then delete the record"
    )


def _store(record: Path, rows: list[_Row]) -> None:
    if rows:
        data = msgspec.to_builtins(_Record(rows, _digest_rows(rows)))
        atomic_files.write_atomically(record, json.dumps(data, indent=2).encode())
    else:
        record.unlink(missing_ok=True)
    sync_directory(record.parent)


def _digest_rows(rows: list[_Row]) -> str:
    return _hash(json.dumps(msgspec.to_builtins(rows)).encode())


def _digest(data: bytes | None) -> str | None:
    return None if data is None else _hash(data)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
