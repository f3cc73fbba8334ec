"""Opens an SQLite file that several processes share, and runs one transaction at a time.

There are two kinds of failure. A failure for the moment or for this process
(a lock, a full disk, a directory that may not be written, no descriptor left) is
an `OSError`, and the file stays as it is. Wrong content of the file is a `DamagedError`.
"""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from toolscript.storage.atomic_files import locked, replacing

log = logging.getLogger(__name__)


class DamagedError(Exception):
    """A file that can be read, but whose content is wrong."""


class SqliteFile:
    """One file. Holds nothing open between uses; any thread may use it.

    ``script`` makes the tables of a new file, which gets its name after that: so an
    empty file is always a damaged one. ``wait_s`` is how long to wait for a lock.
    """

    def __init__(self, path: Path, script: str, wait_s: float) -> None:
        self.path = path
        self._script = script
        self._wait_s = wait_s

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Opens a connection for reading, in one transaction.

        Raises `FileNotFoundError`, `DamagedError`, or another `OSError`.
        """
        with _failures():
            if not self.path.stat().st_size:
                raise DamagedError("it is empty")
            with closing(self._snapshot()) as db:
                yield db

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Opens a connection in one transaction, which the end of the block commits.

        Makes the file if there is none. Raises `DamagedError` or `OSError`.
        """
        with _failures(), self.locked():
            if not self.path.exists():
                self._create()
            elif not self.path.stat().st_size:
                raise DamagedError("it is empty")
            with closing(self._connect("rw")) as db:
                db.execute("pragma journal_mode = delete")
                db.execute("pragma synchronous = normal")
                db.execute("begin immediate")
                yield db
                db.execute("commit")

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other processes from writing or deleting the file; raises `OSError`."""
        return locked(Path(f"{self.path}.lock"), self._wait_s)

    def put_aside(
        self, noun: str, error: DamagedError, check: Callable[[sqlite3.Connection], object]
    ) -> None:
        """Renames the file, if ``check`` raises `DamagedError`, to a name that no file has.

        Does nothing if there is no file, or another process has made a new one. Raises `OSError`.
        """
        with self.locked():
            try:
                with self.reading() as db:
                    check(db)
            except FileNotFoundError:
                return
            except DamagedError:
                what = "%s %s is damaged (%s); it is now %s"
                log.warning(what, noun, self.path, error, self._rename())

    def _rename(self) -> Path:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        for suffix in ("-journal", "-wal", "-shm"):
            beside = self.path.with_name(f"{self.path.name}{suffix}")
            if beside.exists():
                beside.replace(f"{aside}{suffix}")
        self.path.replace(aside)
        return aside

    def delete(self) -> None:
        """Deletes the file, which must be locked."""
        self.path.with_name(f"{self.path.name}-journal").unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _create(self) -> None:
        with replacing(self.path) as new, closing(sqlite3.connect(new)) as db:
            db.executescript(self._script)

    def _snapshot(self) -> sqlite3.Connection:
        try:
            return self._begin("ro")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            return self._begin("rw")  # a writer was killed: SQLite takes back its transaction

    def _begin(self, mode: str) -> sqlite3.Connection:
        db = self._connect(mode)
        try:
            db.execute("begin")
            db.execute("pragma schema_version")  # from here on it is one state of the file
        except BaseException:
            db.close()
            raise
        return db

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=self._wait_s, isolation_level=None)


def check_version(db: sqlite3.Connection, known: int) -> None:
    """Raises `OSError` for a file of a later version, which is left as it is.

    The tables of an earlier one are used as they are: their other columns are ignored, and a
    missing one is damage.
    """
    (version,) = db.execute("pragma user_version").fetchone()
    if version > known:
        raise OSError(f"its version is {version}, and {known} is the newest that is known here")


def check_integrity(db: sqlite3.Connection) -> None:
    """Raises `DamagedError` if SQLite finds a mistake in the file."""
    (answer,) = db.execute("pragma integrity_check(1)").fetchone()
    if answer != "ok":
        raise DamagedError(" ".join(str(answer).split()))


@contextmanager
def _failures() -> Generator[None]:
    """Raises SQLite's errors, and errors of decoding, as `DamagedError` or `OSError`."""
    try:
        yield
    except sqlite3.Error as error:
        if _is_damage(error):
            raise DamagedError(str(error)) from error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise OSError(str(error)) from error
    except (ValueError, TypeError) as error:
        raise DamagedError(str(error)) from error


def _is_damage(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own: a text that is not UTF-8
        return isinstance(error, sqlite3.OperationalError)
    # SQLITE_ERROR: a table or a column is missing.
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
