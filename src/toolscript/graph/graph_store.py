"""The graph on disk: one SQLite file for each configuration.

New counts are *added* to the stored ones, in one transaction at a time, so
several processes can keep the same graph, and a kill at any moment leaves the
last transaction whole. A tool's edges are one blob in its row: a graph of
200,000 edges is read in a fraction of a second. Each row has a checksum: a
changed byte is noticed, and never other evidence.
"""

import logging
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict, astuple

from toolscript.graph.base import Everything, LearnedCounts
from toolscript.graph.counts import EdgeCounts, GlobalCounts, GraphDelta, ToolCounts
from toolscript.graph.usage import UsageChange
from toolscript.storage.atomic_files import write_failure
from toolscript.storage.sqlite_file import (
    DamagedError,
    SqliteFile,
    check_integrity,
    check_version,
)

log = logging.getLogger(__name__)
VERSION = 2
_WAIT_S = 5.0
"""How long to wait for another process' transaction."""
_EDGES = np.dtype(
    [
        ("target", "<i4"),
        ("next", "<f8"),
        ("later", "<f8"),
        ("next_times", "<i4"),
        ("later_times", "<i4"),
        ("stated", "<f4"),
        ("kinds", "<u1"),
    ]
)
_SCRIPT = f"""
create table habit (name text primary key, value real not null, sum integer) without rowid;
create table tool (
    number integer primary key, id text not null unique,
    weight real not null default 0, times integer not null default 0,
    failed real not null default 0, failures integer not null default 0,
    edges blob not null default x'', sum integer
);
create table usage (
    tool text not null, model text not null, count real not null, total blob not null, sum integer,
    primary key (tool, model)
) without rowid;
pragma user_version = {VERSION};
"""
_SUMMED = {
    "habit": "name, value",
    "tool": "number, id, weight, times, failed, failures, edges",
    "usage": "tool, model, count, total",
}
"""The columns of which ``sum`` is the CRC-32, by table."""
_KEY = "tool = ? and model = ?"


class GraphStore:
    """One file; see `GraphStorage`. Holds nothing open between calls."""

    def __init__(self, directory: Path, config_key: str, wait_s: float = _WAIT_S) -> None:
        self.path = directory / f"graph-{config_key}.sqlite"
        self._file = SqliteFile(self.path, _SCRIPT, wait_s)
        self._suspect = False
        """Damage was found: the next change looks for it before it writes."""
        self._warned = ""

    def subscribe(self, changed: Callable[[], None]) -> None:
        """See `GraphStorage`: that another process has written is not told."""

    def load(self, graph: LearnedCounts[GraphDelta], usage: LearnedCounts[UsageChange]) -> bool:
        """See `GraphStorage`. Changes nothing on the disk; a damaged file is not used."""
        try:
            if not self.path.is_file():
                return True
            with self._file.reading() as db:
                _check(db)
                stored, learned = _read(db), _usage(db)
        except DamagedError as error:
            log.warning("the graph %s is damaged (%s); it is not used", self.path, error)
            self._suspect = True
        except OSError as error:
            self._warn("read", error)
            return False
        else:
            graph.rebase(stored)
            usage.rebase(learned)
        return True

    def add(
        self, change: GraphDelta, usage: UsageChange, everything: Everything | None = None
    ) -> bool:
        """See `GraphStorage`. A damaged file is put aside, and a new one made."""
        try:
            try:
                self._add(change, usage, everything)
            except DamagedError as error:
                self._file.put_aside("the graph", error, _check)
                self._add(change, usage, everything)
        except (DamagedError, OSError) as error:
            self._warn("written", error)
            return False
        if self._warned:
            log.warning("the graph %s is written again", self.path)
        self._suspect, self._warned = False, ""
        return True

    def _add(self, change: GraphDelta, usage: UsageChange, everything: Everything | None) -> None:
        with self._file.writing() as db:
            _check_version(db)
            if self._suspect:
                _check(db)
            if everything is not None and not _one(db, "select count(*) from habit"):
                change, usage = everything()
            if change.whole:
                db.execute("delete from tool")
                db.execute("delete from habit")
            if usage.whole:
                db.execute("delete from usage")
            _add(db, change)
            _add_usage(db, usage)

    def _warn(self, what: str, error: Exception) -> None:
        """Log why the file cannot be used, once until it can be written again."""
        level = logging.DEBUG if str(error) == self._warned else logging.WARNING
        message = "the graph %s cannot be %s now: %s"
        log.log(level, message, self.path, what, error, extra=write_failure(error))
        self._warned = str(error)


def _check(db: sqlite3.Connection) -> None:
    """Raise `DamagedError` if anything in the file is not as it was written."""
    _check_version(db)
    check_integrity(db)
    for table in _SUMMED:
        _check_rows(db, table)


def _check_rows(
    db: sqlite3.Connection, table: str, where: str = "true", values: Sequence[str] = ()
) -> None:
    query = f"select count(*) from {table} where {where} and sum is not crc({_SUMMED[table]})"  # noqa: S608 - ours
    wrong = _one(db, query, values)
    if wrong:
        raise DamagedError(f"in the table {table} {wrong} rows have another checksum")


def _sum_rows(
    db: sqlite3.Connection, table: str, where: str = "true", values: Sequence[str] = ()
) -> None:
    db.execute(f"update {table} set sum = crc({_SUMMED[table]}) where {where}", values)  # noqa: S608 - ours


def _crc(*values: object) -> int:
    """The checksum of a row's values."""
    total = 0
    for value in values:
        total = zlib.crc32(value if isinstance(value, bytes) else ascii(value).encode(), total)
    return total


def _check_version(db: sqlite3.Connection) -> None:
    """Raises `OSError` for a file of a later version; else SQL may call ``crc``."""
    check_version(db, VERSION)
    db.create_function("crc", -1, _crc)


def _one(db: sqlite3.Connection, query: str, values: Sequence[str] = ()) -> Any:
    return db.execute(query, values).fetchone()[0]


def _read(db: sqlite3.Connection) -> GraphDelta:
    """Returns the tools, edges and totals of the file."""
    rows = db.execute(
        "select number, id, weight, times, failed, failures, edges from tool order by number"
    ).fetchall()
    ids = {number: tool for number, tool, *_ in rows}
    habits = dict(db.execute("select name, value from habit").fetchall())
    totals = GlobalCounts(habits.get("gain", 0.0), habits.get("foreseen", 0.0))
    stored = GraphDelta({row[1]: ToolCounts(*row[2:6]) for row in rows}, totals=totals)
    for _, source, *_, blob in rows:
        for target, counts in _edges(blob).items():
            if target in ids:
                stored.edges[source, ids[target]] = counts
    return stored


def _add(db: sqlite3.Connection, change: GraphDelta) -> None:
    for each in change.tools:
        _check_rows(db, "tool", "id = ?", (each,))
    _check_rows(db, "habit")
    db.executemany(
        "insert into tool (id, weight, times, failed, failures) values (?, ?, ?, ?, ?) "
        "on conflict (id) do update set weight = weight + excluded.weight, "
        "times = times + excluded.times, failed = failed + excluded.failed, "
        "failures = failures + excluded.failures",
        [(each, u.weight, u.times, u.failed, u.failures) for each, u in change.tools.items()],
    )
    numbers = _numbers(db, change.tools)
    rows: defaultdict[int, dict[int, EdgeCounts]] = defaultdict(dict)
    for (source, target), seen in change.edges.items():
        rows[numbers[source]][numbers[target]] = seen
    for source, edges in rows.items():
        (blob,) = db.execute("select edges from tool where number = ?", (source,)).fetchone()
        known = _edges(blob)
        for target, seen in edges.items():
            known.setdefault(target, EdgeCounts()).add(seen)
        merged = np.array([(target, *astuple(known[target])) for target in known], _EDGES)
        db.execute("update tool set edges = ? where number = ?", (merged.tobytes(), source))
    db.executemany(
        "insert into habit (name, value) values (?, ?) on conflict (name) do update set "
        "value = value + excluded.value",
        asdict(change.totals).items(),
    )
    for each in change.tools:
        _sum_rows(db, "tool", "id = ?", (each,))
    _sum_rows(db, "habit")


def _numbers(db: sqlite3.Connection, identifiers: Iterable[str]) -> dict[str, int]:
    return {each: _one(db, "select number from tool where id = ?", (each,)) for each in identifiers}


def _edges(blob: bytes) -> dict[int, EdgeCounts]:
    """A tool's edges by the numbers of their targets."""
    rows = np.frombuffer(blob, _EDGES).tolist()
    return {target: EdgeCounts(*counts) for target, *counts in rows}


def _usage(db: sqlite3.Connection) -> UsageChange:
    rows = db.execute("select tool, model, count, total from usage").fetchall()
    found = UsageChange()
    for tool, model, count, total in rows:
        found.add(tool, model, np.frombuffer(total, np.float32), count)
    return found


def _add_usage(db: sqlite3.Connection, usage: UsageChange) -> None:
    for key, learned in usage.learned.items():
        _check_rows(db, "usage", _KEY, key)
        known = db.execute(f"select count, total from usage where {_KEY}", key).fetchone()  # noqa: S608 - ours
        merged = UsageChange({key: learned})
        if known is not None and len(known[1]) == learned[1].nbytes:
            merged.add(*key, np.frombuffer(known[1], np.float32), known[0])
        count, total = merged.learned[key]
        db.execute(
            "insert or replace into usage (tool, model, count, total) values (?, ?, ?, ?)",
            (*key, count, total.astype(np.float32).tobytes()),
        )
        _sum_rows(db, "usage", _KEY, key)
