"""Keeps the most recent tool calls in an SQLite file: who called what, when, the outcome.

Of arguments and results only the sizes are stored. The number of rows is bounded: each new one past
the bound replaces the oldest.
"""

import fnmatch
import re
import sqlite3
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta
from msgspec.structs import astuple

from toolscript.storage.sqlite_file import (
    DamagedError,
    SqliteFile,
    check_integrity,
    check_version,
)
from toolscript.types import as_id

_NOUN = "the log of calls"
VERSION = 3
MAX_ROWS = 10_000
_WAIT_S = 5.0
"""How long to wait for another process' transaction."""
_SCRIPT = f"""
create table call (
    id integer primary key, time text not null, who text not null, tool text not null,
    server text not null, outcome text not null, ms real not null,
    argument_bytes integer, result_bytes integer
);
pragma user_version = {VERSION};
"""
_DELETE_OLD = "delete from call where id <= (select max(id) from call) - ?"

Outcome: TypeAlias = Literal[
    "ok",
    "tool error",
    "refused",
    "timeout",
    "not connected",
    "bad answer",
    "unknown tool",
    "invalid arguments",
    "denied",
    "held",
    "cancelled",
    "internal",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
_Count: TypeAlias = Annotated[int, Meta(ge=0)] | None


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One call of a tool."""

    id: Annotated[int, Meta(description="Grows with each row.")] = 0
    time: Annotated[str, Meta(description="When the call ended (UTC).")]
    who: Annotated[str, Meta(description="The id of a token, `owner` or `anyone`.")]
    tool: Annotated[
        str, Meta(description="The tool's id; the name that the caller used if there is none.")
    ]
    server: Annotated[str, Meta(description="Empty if the caller knows no such server.")]
    outcome: Outcome
    ms: Annotated[float, Meta(description="How long the call took.")]
    argument_bytes: Annotated[
        _Count, Meta(description="As JSON; null if they cannot be written as JSON.")
    ]
    result_bytes: Annotated[_Count, Meta(description="As JSON; null if there is no result.")]


_COLUMNS = RecordedCall.__struct_fields__
_FIELDS = RecordedCall.__struct_encode_fields__
_INSERT = f"insert into call ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - no values


@dataclass(frozen=True, slots=True)
class ActivityQuery:
    """Which calls are asked for; a field that is None excludes none."""

    limit: int
    """The maximum number of calls."""
    before: int | None = None
    """Only calls with a lower id."""
    tool: str | None = None
    """A pattern (``*``, ``?``) that the name of the tool must match."""
    who: str | None = None
    """Only calls of this caller."""
    outcome: str | None = None
    """Only calls with this outcome."""

    def matcher(self) -> Callable[[str], object]:
        """Returns a function that is true for the names of tools that match the pattern."""
        # Not SQLite's GLOB, which takes exponential time for some patterns.
        pattern = self.tool or "*"
        return re.compile("|".join(map(fnmatch.translate, (pattern, as_id(pattern))))).match


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """Calls, the newest first."""

    calls: list[RecordedCall]
    has_more: bool
    """Whether older calls fit the query, too."""


class ActivityLog:
    """One file; see `ActivityStorage`. Holds nothing open between calls."""

    def __init__(self, directory: Path, config_key: str, wait_s: float = _WAIT_S) -> None:
        self.path = directory / f"activity-{config_key}.sqlite"
        self._file = SqliteFile(self.path, _SCRIPT, wait_s)

    @property
    def location(self) -> str:
        """See `ActivityStorage`."""
        return str(self.path)

    def append(self, calls: Sequence[RecordedCall]) -> None:
        """Adds calls, the oldest first, in one transaction.

        A damaged file is renamed and a new one made. Raises `OSError`.
        """
        try:
            self._append(calls)
        except DamagedError as error:
            self._file.put_aside(_NOUN, error, _check)
            try:
                self._append(calls)
            except DamagedError as again:
                raise OSError(str(again)) from again

    def read(self, query: ActivityQuery) -> ActivityPage:
        """Returns the calls that a query asks for.

        A damaged file is renamed, and counts as an empty one. Raises `OSError`.
        """
        try:
            with self._file.reading() as db:
                calls = list(islice(_select(db, query), query.limit + 1))
        except FileNotFoundError:
            return ActivityPage([], has_more=False)
        except DamagedError as error:
            self._file.put_aside(_NOUN, error, _check)
            return ActivityPage([], has_more=False)
        return ActivityPage(calls[: query.limit], has_more=len(calls) > query.limit)

    def _append(self, calls: Sequence[RecordedCall]) -> None:
        with self._file.writing() as db:
            check_version(db, VERSION)
            db.executemany(_INSERT, [(None, *astuple(call)[1:]) for call in calls])
            db.execute(_DELETE_OLD, (MAX_ROWS,))


def _select(db: sqlite3.Connection, query: ActivityQuery) -> Generator[RecordedCall]:
    """Yields the calls that fit, the newest first; raises `DamagedError` or `OSError`."""
    check_version(db, VERSION)
    given = {"id < ?": query.before, "who = ?": query.who, "outcome = ?": query.outcome}
    given = {condition: value for condition, value in given.items() if value is not None}
    where = " and ".join(given) or "true"
    statement = f"select {', '.join(_COLUMNS)} from call where {where} order by id desc"  # noqa: S608 - ours
    rows = db.execute(statement, tuple(given.values()))
    matches = query.matcher()
    for row in rows:
        try:
            call = msgspec.convert(dict(zip(_FIELDS, row, strict=True)), RecordedCall)
        except msgspec.ValidationError as error:
            raise DamagedError(str(error)) from error
        if matches(call.tool):
            yield call


def _check(db: sqlite3.Connection) -> None:
    """Raises `DamagedError` if the file, or a row of it, cannot be read."""
    check_integrity(db)
    for _ in _select(db, ActivityQuery(MAX_ROWS)):
        pass
