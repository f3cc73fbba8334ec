"""Caches bytes by key in an SQLite file; all of it can be computed again.

The rows of a table are written by one version of its writer. A change
writes the rows that changed, a kill at any moment leaves the last change whole, and
several processes may use the same file. Each row has a checksum. Nothing in it is
the only copy: rows that are damaged, or written by another version, are not returned.
"""

import logging
import sqlite3
import zlib
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from toolscript.storage.atomic_files import write_failure
from toolscript.storage.sqlite_file import DamagedError, SqliteFile

_T = TypeVar("_T")
log = logging.getLogger(__name__)
BlobTable: TypeAlias = Literal["files", "vectors"]
LOCK_TIMEOUT_S = 30.0
"""How long to wait for other processes that write: longer than several of them need."""
_APPLICATION_ID = 0x746F6F6C
"""Tells our files from SQLite files of other programs."""
_LAYOUT = 3
_PAGE_BYTES = 16_384
_MANY_KEYS = 256
"""For more keys than this, reading all rows is faster than looking each key up."""
_CREATE_FILE = f"""
pragma page_size = {_PAGE_BYTES};
pragma application_id = {_APPLICATION_ID};
pragma user_version = {_LAYOUT};
create table writers (name text primary key, version text not null) without rowid;
"""
_CREATE_TABLE = """
create table if not exists "{0}" (
    key blob primary key, value blob not null, crc integer not null,
    written text not null default (datetime('now'))
)
"""
_Row: TypeAlias = tuple[int, bytes, bytes, int]
"""Row number, key, value and checksum. In a damaged file they may have other types."""


class BlobStore:
    """One file. Holds nothing open between calls; any thread may call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = SqliteFile(path, _CREATE_FILE, LOCK_TIMEOUT_S)

    def load(
        self, table: BlobTable, writer_version: str, keys: Collection[str] | None = None
    ) -> dict[str, bytes]:
        """Returns the rows of a table, if this version wrote it.

        With ``keys`` these are at least those of the keys, as far as they are there.
        Unreadable rows are left out; damaged ones are logged and deleted.
        """
        rows, damaged = self._read(
            table, writer_version, lambda db: _rows(db, table, keys), ({}, [])
        )
        if damaged:
            log.warning("%s: %d damaged rows; rebuilding them", self.path, len(damaged))
            delete = f'delete from "{table}" where rowid = ? and crc is ?'  # noqa: S608 - see BlobTable
            self._change(table, writer_version, lambda db: db.executemany(delete, damaged))
        return rows

    def writer_version(self, table: BlobTable) -> str:
        """Returns which version wrote a table; empty if there is none or it is unreadable."""
        with self._log_failures("read"):
            if self.path.is_file():
                with self._file.reading() as db:
                    return _writer_version(db, table)
        return ""

    def sync(
        self,
        table: BlobTable,
        writer_version: str,
        keys: Collection[str],
        value: Callable[[str], bytes],
        keep_if: Callable[[str], bool] | None = None,
    ) -> bool:
        """Makes a table have exactly ``keys``, and other keys only if ``keep_if`` says so.

        A key stands for one content: ``value`` is called for keys that are missing,
        and rows that are there are not written again. A failure (full disk, busy
        file) is logged and returned as False; the file is then as it was.
        """
        wanted = dict.fromkeys(keys)

        def missing_and_gone(db: sqlite3.Connection) -> tuple[list[str], list[str]]:
            there = {_text(row[0]) for row in db.execute(f'select key from "{table}"')}  # noqa: S608 - see BlobTable
            gone = [key for key in there if key not in wanted and not (keep_if and keep_if(key))]
            return [key for key in wanted if key not in there], gone

        def change(db: sqlite3.Connection) -> None:
            missing, gone = missing_and_gone(db)
            rows = (_with_checksum(_bytes(key), value(key)) for key in missing)
            db.executemany(f'delete from "{table}" where key = ?', [(_bytes(key),) for key in gone])  # noqa: S608 - see BlobTable
            db.executemany(f'insert into "{table}" (key, value, crc) values (?, ?, ?)', rows)  # noqa: S608 - see BlobTable

        unchanged = self._read(
            table, writer_version, lambda db: missing_and_gone(db) == ([], []), otherwise=False
        )
        return unchanged or self._change(table, writer_version, change)

    def _read(
        self,
        table: BlobTable,
        writer_version: str,
        read: Callable[[sqlite3.Connection], _T],
        otherwise: _T,
    ) -> _T:
        """Returns the result of ``read`` if this version wrote the table."""
        with self._log_failures("read"):
            if self.path.is_file():
                with self._file.reading() as db:
                    if _writer_version(db, table) == writer_version:
                        return read(db)
        return otherwise

    def _change(
        self,
        table: BlobTable,
        writer_version: str,
        change: Callable[[sqlite3.Connection], object],
    ) -> bool:
        """Change a table in one transaction; it is emptied first if another version wrote it."""
        with self._log_failures("written"), self._file.writing() as db:
            db.execute(_CREATE_TABLE.format(table))
            if _writer_version(db, table) != writer_version:
                db.execute(f'delete from "{table}"')  # noqa: S608 - see BlobTable
                db.execute("insert or replace into writers values (?, ?)", (table, writer_version))
            change(db)
            return True
        return False

    @contextmanager
    def _log_failures(self, action: str) -> Generator[None]:
        """Logs failures; a file that is damaged is deleted."""
        try:
            yield
        except OSError as error:
            log.warning("%s cannot be %s: %s", self.path, action, error, extra=write_failure(error))
        except DamagedError as error:
            log.warning("%s is damaged (%s); rebuilding", self.path, error)
            with self._log_failures("deleted"), self._file.locked():
                self._file.delete()


def _writer_version(db: sqlite3.Connection, table: BlobTable) -> str:
    """Which version wrote a table; raises `DamagedError` for a file of another layout."""
    (application_id,) = db.execute("pragma application_id").fetchone()
    (layout,) = db.execute("pragma user_version").fetchone()
    if (application_id, layout) != (_APPLICATION_ID, _LAYOUT):
        raise DamagedError("it is of another program or version")
    row = db.execute("select version from writers where name = ?", (table,)).fetchone()
    return str(row[0]) if row else ""


def _rows(
    db: sqlite3.Connection, table: BlobTable, keys: Collection[str] | None
) -> tuple[dict[str, bytes], list[tuple[int, int]]]:
    """Returns the rows whose checksum is right, and number and checksum of the others."""
    rows: dict[str, bytes] = {}
    damaged: list[tuple[int, int]] = []
    query = f'select rowid, key, value, crc from "{table}"'  # noqa: S608 - see BlobTable
    selected: Iterable[_Row] = db.execute(query)
    if keys is not None and len(keys) <= _MANY_KEYS:
        lookups = (db.execute(f"{query} where key = ?", (_bytes(key),)) for key in keys)
        selected = chain.from_iterable(lookups)
    for number, key, value, crc in selected:
        if _checksum(key, value) == crc:
            rows[_text(key)] = value
        else:
            damaged.append((number, crc))
    return rows, damaged


def _with_checksum(key: bytes, value: bytes) -> tuple[bytes, bytes, int]:
    return key, value, _checksum(key, value)


def _checksum(key: bytes, value: bytes) -> int:
    return zlib.crc32(value, zlib.crc32(key))


def _bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _text(key: bytes) -> str:
    return bytes.decode(key, "utf-8", "surrogatepass")  # a `TypeError` if damaged
