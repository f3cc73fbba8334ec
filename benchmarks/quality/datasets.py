"""A dataset: tools to be found, and queries that say which of them are right.

A folder with two files of JSON lines:

- ``tools.jsonl``: ``id``, ``server``, ``name``, and where there are any
  ``description``, ``input_schema`` and ``annotations``;
- ``queries.jsonl``: ``query``, ``relevant`` (ids of tools), and where there is one
  ``split``.

Other fields are ignored.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

TOOLS, QUERIES = "tools.jsonl", "queries.jsonl"
LEAST_TEST = 200
"""With fewer queries marked ``test`` than this, all are asked."""
MOST = 1000
SEED = 0


class DataError(Exception):
    """What was given cannot be measured: a message of one line."""


class Tool(msgspec.Struct, frozen=True):
    """A tool to be found."""

    id: str
    server: str
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class Query(msgspec.Struct, frozen=True):
    """A question and the ids of the tools that answer it."""

    query: str
    relevant: tuple[str, ...]
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """One folder's tools, and those of its queries that are asked."""

    name: str
    tools: tuple[Tool, ...]
    queries: tuple[Query, ...]


_Row = TypeVar("_Row", Tool, Query)


def load(folder: Path, sample: int | None = None) -> Dataset:
    """Read and check a dataset; raises `DataError` naming file, line and mistake."""
    tools = _read(folder / TOOLS, Tool)
    queries = _read(folder / QUERIES, Query)
    known: set[str] = set()
    for number, tool in tools:
        if tool.id in known:
            raise DataError(f"{folder / TOOLS}:{number}: the id {tool.id!r} was used before")
        known.add(tool.id)
    for number, query in queries:
        _check(query, known, f"{folder / QUERIES}:{number}")
    asked = select([query for _, query in queries], sample)
    return Dataset(folder.name, tuple(tool for _, tool in tools), asked)


def queries(folder: Path) -> tuple[Query, ...]:
    """A dataset's queries, all of them, as they are written; raises `DataError`."""
    return tuple(query for _, query in _read(folder / QUERIES, Query))


def tools(folder: Path) -> tuple[Tool, ...]:
    """A dataset's tools alone, where there may be no queries; raises `DataError`."""
    if not (folder / TOOLS).is_file():
        raise DataError(f"{folder} is no dataset: it has no {TOOLS}")
    return tuple(tool for _, tool in _read(folder / TOOLS, Tool))


def select(queries: Sequence[Query], sample: int | None = None) -> tuple[Query, ...]:
    """The queries that are asked.

    Those whose split is ``test`` where there are at least `LEAST_TEST`, else all;
    of these at most `MOST`, or ``sample`` where that is less, drawn with `SEED`.
    """
    test = [query for query in queries if query.split == "test"]
    pool = test if len(test) >= LEAST_TEST else list(queries)
    most = MOST if sample is None else min(sample, MOST)
    if len(pool) > most:
        pool = random.Random(SEED).sample(pool, most)  # noqa: S311 - the same draw every time
    return tuple(pool)


def find(data: Path, names: Iterable[str] | None = None) -> list[Path]:
    """The dataset folders of ``data``: those named, or all that have queries."""
    if not data.is_dir():
        raise DataError(f"--data {data}: there is no such folder")
    if names is None:
        folders = sorted(p for p in data.iterdir() if p.is_dir() and not p.name.startswith("."))
    else:
        folders = [data / name for name in names]
    for folder in folders:
        if not folder.is_dir():
            there = ", ".join(sorted(p.name for p in data.iterdir() if p.is_dir()))
            raise DataError(f"{data} has no dataset {folder.name!r}; it has {there or 'none'}")
        if not (folder / TOOLS).is_file():
            raise DataError(f"{folder} is no dataset: it has no {TOOLS}")
    if names is None:  # tools without queries serve as distractors elsewhere
        folders = [folder for folder in folders if _has_rows(folder / QUERIES)]
    if not folders:
        raise DataError(f"{data} has no dataset: no folder in it has {TOOLS} and {QUERIES}")
    return folders


def _has_rows(path: Path) -> bool:
    return path.is_file() and bool(path.read_bytes().strip())


def _read(path: Path, row: type[_Row]) -> list[tuple[int, _Row]]:
    """The file's rows with the numbers of their lines; blank lines are skipped."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    decoder = msgspec.json.Decoder(row)
    rows: list[tuple[int, _Row]] = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                rows.append((number, decoder.decode(line)))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise DataError(f"{path}:{number}: {error}") from None
    if not rows:
        raise DataError(f"{path} is empty")
    return rows


def _check(query: Query, known: set[str], where: str) -> None:
    if not query.query.strip():
        raise DataError(f"{where}: the query is empty")
    if not query.relevant:
        raise DataError(f"{where}: no tool is relevant, so nothing can be found")
    for identifier in query.relevant:
        if identifier not in known:
            raise DataError(f"{where}: the relevant tool {identifier!r} is not in {TOOLS}")
