"""The graph on disk: one SQLite file for each configuration.

What was learned is *added* to what is there, in one transaction at a time, so
several processes can keep the same graph, and a kill at any moment leaves the
last transaction whole. A tool's edges are one blob in its row: a graph of
200,000 edges is read in a fraction of a second.
"""

import logging
from collections import defaultdict
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolscript.files import make_private
from toolscript.graph.counts import Change, Habits, Seen, Uses
from toolscript.graph.toolgraph import ToolGraph
from toolscript.graph.usage import Usage, UsageChange

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger(__name__)
VERSION = 1
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
_HABITS = ("steps", "repeats", "same_server", "gain", "foreseen")
_SCHEMA = """
create table if not exists habit (name text primary key, value real not null) without rowid;
create table if not exists tool (
    number integer primary key, id text not null unique,
    weight real not null default 0, times integer not null default 0,
    failed real not null default 0, failures integer not null default 0,
    edges blob not null default x''
);
create table if not exists usage (
    tool text not null, model text not null, count real not null, total blob not null,
    primary key (tool, model)
) without rowid;
"""


class GraphStore:
    """One file. Holds nothing open between calls; any thread may call, one at a time."""

    def __init__(self, directory: Path, config_key: str) -> None:
        self.path = directory / f"graph-{config_key}.sqlite"

    def load(self, graph: ToolGraph, usage: Usage) -> None:
        """Add what is on the disk; a file that cannot be read is put aside, with a warning."""
        if not self.path.is_file():
            return
        import sqlite3  # noqa: PLC0415 - only where something is kept

        try:
            with self._open() as db:
                _load(db, graph)
                usage.restore(_usage(db))
        except (sqlite3.DatabaseError, ValueError) as error:
            aside = self.path.with_suffix(".damaged")
            log.warning("the graph %s is not usable (%s); it is now %s", self.path, error, aside)
            for suffix in ("", "-wal", "-shm"):
                found = self.path.with_name(self.path.name + suffix)
                if found.exists():
                    found.replace(aside.with_name(aside.name + suffix))
            graph.clear()
            graph.taken()

    def add(self, change: Change, usage: UsageChange) -> bool:
        """Add what was learned; whether it is kept. What cannot be written is logged."""
        import sqlite3  # noqa: PLC0415 - see above

        try:
            with self._open() as db:
                db.execute("begin immediate")
                if change.whole:
                    db.execute("delete from tool")
                    db.execute("delete from habit")
                if usage.whole:
                    db.execute("delete from usage")
                _add(db, change)
                _add_usage(db, usage)
                db.commit()
        except (sqlite3.Error, OSError) as error:
            log.warning("what was learned cannot be kept in %s: %s", self.path, error)
            return False
        return True

    @contextmanager
    def _open(self) -> Generator["sqlite3.Connection"]:
        import sqlite3  # noqa: PLC0415 - see above

        make_private(self.path.parent)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        with closing(sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)) as db:
            db.execute("pragma journal_mode = wal")
            db.execute("pragma synchronous = normal")
            found = db.execute("pragma user_version").fetchone()[0]
            if found not in {0, VERSION}:
                raise sqlite3.DatabaseError(f"its version is {found}, not {VERSION}")
            db.executescript(_SCHEMA)
            db.execute(f"pragma user_version = {VERSION}")
            yield db


def _load(db: "sqlite3.Connection", graph: ToolGraph) -> None:
    rows = db.execute(
        "select number, id, weight, times, failed, failures, edges from tool order by number"
    ).fetchall()
    found = np.frombuffer(b"".join(row[6] for row in rows), _EDGES)
    counts = np.array([len(row[6]) // _EDGES.itemsize for row in rows], dtype=np.int64)
    numbers = np.array([row[0] for row in rows], dtype=np.int64)
    sources = np.repeat(np.arange(len(rows)), counts)
    targets = np.searchsorted(numbers, found["target"])
    there = targets < len(rows)
    there[there] = numbers[targets[there]] == found["target"][there]
    columns = {name: found[name][there] for name in found.dtype.names or () if name != "target"}
    tools = {row[1]: Uses(*row[2:6]) for row in rows}
    habits = Habits(**dict(db.execute("select name, value from habit").fetchall()))
    edges = sources[there], targets[there], columns
    graph.begin_anew(lambda learned: learned.fill(tools, *edges, habits))


def _add(db: "sqlite3.Connection", change: Change) -> None:
    db.executemany(
        "insert into tool (id, weight, times, failed, failures) values (?, ?, ?, ?, ?) "
        "on conflict (id) do update set weight = weight + excluded.weight, "
        "times = times + excluded.times, failed = failed + excluded.failed, "
        "failures = failures + excluded.failures",
        [(each, u.weight, u.times, u.failed, u.failures) for each, u in change.tools.items()],
    )
    numbers = _numbers(db, change.tools)
    rows: defaultdict[int, dict[int, Seen]] = defaultdict(dict)
    for (source, target), seen in change.edges.items():
        rows[numbers[source]][numbers[target]] = seen
    for source, edges in rows.items():
        (blob,) = db.execute("select edges from tool where number = ?", (source,)).fetchone()
        merged = _merged(np.frombuffer(blob, _EDGES), edges)
        db.execute("update tool set edges = ? where number = ?", (merged.tobytes(), source))
    db.executemany(
        "insert into habit values (?, ?) on conflict (name) do update set "
        "value = value + excluded.value",
        [(name, getattr(change.habits, name)) for name in _HABITS],
    )


def _numbers(db: "sqlite3.Connection", identifiers: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in identifiers:
        (found[each],) = db.execute("select number from tool where id = ?", (each,)).fetchone()
    return found


def _merged(known: NDArray[np.void], new: dict[int, Seen]) -> NDArray[np.void]:
    """A tool's edges with what was seen since added."""
    place = {int(target): at for at, target in enumerate(known["target"])}
    fresh = [target for target in new if target not in place]
    merged = np.zeros(len(known) + len(fresh), dtype=_EDGES)
    merged[: len(known)] = known
    for at, target in enumerate(fresh, len(known)):
        place[target] = at
        merged[at]["target"] = target
    for target, seen in new.items():
        row = merged[place[target]]
        for name in ("next", "later", "next_times", "later_times"):
            row[name] += getattr(seen, name)
        row["stated"] = max(float(row["stated"]), seen.stated)
        row["kinds"] |= seen.kinds
    return merged


def _usage(db: "sqlite3.Connection") -> UsageChange:
    rows = db.execute("select tool, model, count, total from usage").fetchall()
    found = UsageChange()
    for tool, model, count, total in rows:
        found.add(tool, model, np.frombuffer(total, np.float32), count)
    return found


def _add_usage(db: "sqlite3.Connection", usage: UsageChange) -> None:
    for (tool, model), learned in usage.learned.items():
        known = db.execute(
            "select count, total from usage where tool = ? and model = ?", (tool, model)
        ).fetchone()
        merged = UsageChange({(tool, model): learned})
        if known is not None and len(known[1]) == learned[1].nbytes:
            merged.add(tool, model, np.frombuffer(known[1], np.float32), known[0])
        count, total = merged.learned[tool, model]
        db.execute(
            "insert or replace into usage values (?, ?, ?, ?)",
            (tool, model, count, total.astype(np.float32).tobytes()),
        )
