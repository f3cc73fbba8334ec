"""What was derived from files, kept on the disk so that it is not derived again.

One SQLite file of tables, each of bytes by key. A change costs what changed, a
kill at any moment leaves the last one whole, and several processes may use the
same file. It is nobody's only copy of anything: what is damaged, or was made by
another version, is not there, and whoever asks makes it anew.
"""

import logging
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolscript.storage import rows
from toolscript.storage.atomic_files import write_failure
from toolscript.storage.database import DamagedError, Database
from toolscript.storage.rows import Damaged, Row

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger(__name__)
Table: TypeAlias = Literal["files", "words", "vectors", "fallback"]
_APPLICATION = 0x746F6F6C
"""By which SQLite tells our files from those of other programs."""
_LAYOUT = 2
_WAIT_S = 30.0
"""Longer than several processes need to write one after the other."""
_PAGE_BYTES = 16_384
_SCRIPT = f"""
pragma page_size = {_PAGE_BYTES};
pragma application_id = {_APPLICATION};
pragma user_version = {_LAYOUT};
create table made (name text primary key, by text not null) without rowid;
"""


def _nothing(key: str) -> bool:
    del key
    return False


class BlobStore:
    """One file. Holds nothing open between calls; any thread may call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = Database(path, _SCRIPT, _WAIT_S)

    def load(
        self, table: Table, made_by: str, keys: Collection[str] | None = None
    ) -> dict[str, bytes]:
        """What ``made_by`` keeps in a table; at least these keys, where some are named.

        What cannot be read is not there. Damage is logged and taken away.
        """
        found = self.rows(table, made_by, keys)
        return {key: value for row in found for key, value in row.items()}

    def rows(self, table: Table, made_by: str, keys: Collection[str] | None = None) -> list[Row]:
        """The same as `load`, as it stands there."""
        found: list[Row] = []
        damaged: list[Damaged] = []
        with self._telling("read"):
            if self.path.is_file():
                with self._file.reading() as db:
                    if _made_by(db, table) == made_by:
                        found, damaged = rows.read(db, table, keys)
        if damaged:
            log.warning("%s: %d damaged rows; rebuilding them", self.path, len(damaged))
            self._change(table, made_by, lambda db: rows.drop(db, table, damaged))
        return found

    def made_by(self, table: Table) -> str:
        """Who wrote what is in a table; empty where there is none or it cannot be read."""
        with self._telling("read"):
            if self.path.is_file():
                with self._file.reading() as db:
                    return _made_by(db, table)
        return ""

    def keep(
        self,
        table: Table,
        made_by: str,
        keys: Collection[str],
        value: Callable[[str], bytes],
        spare: Callable[[str], bool] = _nothing,
    ) -> bool:
        """Bring a table in step: then it has these keys, and of others those that ``spare`` names.

        A key stands for one content: what is there already is not written
        again. A failure (full disk, busy file) is logged and returned as
        False; the file is then as it was.
        """
        return self._change(table, made_by, lambda db: rows.bring(db, table, keys, value, spare))

    def _change(
        self, table: Table, made_by: str, change: Callable[["sqlite3.Connection"], None]
    ) -> bool:
        """Change a table, which is emptied first where somebody else made it."""
        with self._telling("written"), self._file.writing() as db:
            _prepare(db, table, made_by)
            change(db)
            return True
        return False

    @contextmanager
    def _telling(self, what: str) -> Generator[None]:
        """Log what goes wrong; a file that is damaged is taken away."""
        try:
            yield
        except OSError as error:
            log.warning("%s cannot be %s: %s", self.path, what, error, extra=write_failure(error))
        except DamagedError as error:
            log.warning("%s is damaged (%s); rebuilding", self.path, error)
            with self._telling("deleted"), self._file.locked():
                self._file.delete()


def _one(db: "sqlite3.Connection", query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _made_by(db: "sqlite3.Connection", table: Table) -> str:
    """Who made a table; raises `DamagedError` for a file that is none of ours."""
    stated = [_one(db, f"pragma {name}") for name in ("application_id", "user_version")]
    if stated != [_APPLICATION, _LAYOUT]:
        raise DamagedError("it is of another program or version")
    row = db.execute("select by from made where name = ?", (table,)).fetchone()
    return str(row[0]) if row else ""


def _prepare(db: "sqlite3.Connection", table: Table, made_by: str) -> None:
    """Have the table, and nothing in it that somebody else made."""
    db.execute(rows.SCHEMA.format(table))
    if _made_by(db, table) != made_by:
        db.execute(f'delete from "{table}"')  # noqa: S608 - one of ours
        db.execute("insert or replace into made values (?, ?)", (table, made_by))
