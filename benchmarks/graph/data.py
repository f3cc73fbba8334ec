"""Histories and what is asked of them.

Beside the files of `benchmarks.quality.datasets` a folder may have

- ``graph.json``: ``sequences``, lists of tools' ids in the order of their use, and
  ``dependencies``, lists of a tool, one that it needs and the kind of need;
- ``next_tool.jsonl``: ``context`` (ids in order), ``relevant`` (what came next),
  ``seen_chain`` (whether the history has just that beginning), ``query``.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.quality import datasets
from benchmarks.quality.datasets import SEED, DataError, Tool

GRAPH, NEXT = "graph.json", "next_tool.jsonl"
_NO_QUERY = "(no query"
"""How a placeholder begins."""
_T = TypeVar("_T")


class Item(msgspec.Struct, frozen=True):
    """One use to be foreseen."""

    context: tuple[str, ...]
    relevant: tuple[str, ...]
    seen_chain: bool
    query: str = ""

    @property
    def asked(self) -> str:
        """The question behind it; empty where there is none."""
        return "" if self.query.startswith(_NO_QUERY) else self.query


class History(msgspec.Struct, frozen=True):
    """What was used, in which order, and what needs what."""

    sequences: tuple[tuple[str, ...], ...] = ()
    dependencies: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Used:
    """One dataset: its tools, a history of their use, and uses to be foreseen."""

    name: str
    tools: tuple[Tool, ...]
    history: History
    items: tuple[Item, ...]


def load(folder: Path, sample: int | None = None, *, tools_only: bool = False) -> Used:
    """Read a dataset that has a history; raises `DataError`."""
    tools = datasets.tools(folder)
    if tools_only:
        return Used(folder.name, tools, History(), ())
    known = {tool.id for tool in tools}
    history = _decoded(folder / GRAPH, History)
    sequences = tuple(tuple(t for t in s if t in known) for s in history.sequences)
    items = [
        _decoded_line(folder / NEXT, number, line)
        for number, line in enumerate(_lines(folder / NEXT), 1)
    ]
    asked = tuple(item for item in items if set(item.relevant) <= known and item.context)
    chosen = drawn(asked, sample)
    return Used(folder.name, tools, msgspec.structs.replace(history, sequences=sequences), chosen)


def drawn(rows: Sequence[_T], sample: int | None) -> tuple[_T, ...]:
    """At most so many of them, always the same."""
    if sample is None or len(rows) <= sample:
        return tuple(rows)
    return tuple(random.Random(SEED).sample(list(rows), sample))  # noqa: S311 - the same draw every time


def _lines(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().split(b"\n") if line] if path.is_file() else []


def _decoded(path: Path, kind: type[History]) -> History:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{path}: {error}") from None


def _decoded_line(path: Path, number: int, line: bytes) -> Item:
    try:
        return msgspec.json.decode(line, type=Item)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}:{number}: {error}") from None
