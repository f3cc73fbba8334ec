"""Copies shared data from the files of a data directory into the database, or back."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

from toolscript.app.stores import LocalStores
from toolscript.embedding.base import CachedVector
from toolscript.embedding.json_vector_cache import JsonVectorCache, model_of_file
from toolscript.errors import ConfigError
from toolscript.gateway.catalogue import ServerEntry
from toolscript.gateway.snapshot import SnapshotStore
from toolscript.graph.base import GraphStorage
from toolscript.graph.tool_graph import ToolGraph
from toolscript.graph.usage import Usage
from toolscript.postgres.activity_store import DatabaseActivityStore
from toolscript.postgres.graph_store import DatabaseGraphStore
from toolscript.postgres.key_value_store import DatabaseRecords
from toolscript.postgres.shared_stores import SharedStores
from toolscript.postgres.vector_cache import DatabaseVectorCache
from toolscript.storage.activity_log import MAX_ROWS, ActivityQuery
from toolscript.storage.base import ActivityStorage, LostRecordError, Records

log = logging.getLogger(__name__)
_ALL_CALLS = ActivityQuery(limit=MAX_ROWS)
Digests: TypeAlias = Mapping[str, str]
"""The digests of tools, by their ids."""
VectorSets: TypeAlias = Generator[tuple[str, Mapping[str, CachedVector]]]
"""The vectors of several models: each one's name, and its vectors by document."""


class Side(Protocol):
    """Everything that is copied, in one of the two places."""

    records: Mapping[str, Records]
    """By the name of their store; those that decide who may do what come first."""
    activity: ActivityStorage

    @property
    def graph(self) -> GraphStorage:
        """What was learned."""
        ...

    def entries(self) -> Sequence[ServerEntry]:
        """Returns what is known of the servers."""
        ...

    def replace_entries(self, entries: Sequence[ServerEntry]) -> None:
        """Replaces what is known of the servers."""
        ...

    def vectors(self, tools: Digests) -> VectorSets:
        """Yields vectors by model, at least those of one model of these tools."""
        ...

    def add_vectors(self, model: str, vectors: Mapping[str, CachedVector]) -> bool:
        """Adds vectors of one model; returns False if that fails."""
        ...


class Files:
    """The files of one configuration; see `Side`.

    Args:
        data_dir: The data directory.
        config_key: The key of the configuration, which is in the names of files.
        servers_hash: Stands for the servers, in the name of the file with their tools' vectors.
    """

    def __init__(self, data_dir: Path, config_key: str, servers_hash: str) -> None:
        stores = LocalStores(data_dir, config_key)
        names = ("tokens", "pins", "answers", "questions", "logins")
        self.records: Mapping[str, Records] = {name: stores.records(name) for name in names}
        self.graph: GraphStorage = stores.graph
        self.activity: ActivityStorage = stores.activity
        self._pin_markers = data_dir / "run" / f"pins-{config_key}"
        self._cache = data_dir / "cache"
        self._snapshot = SnapshotStore(self._cache / "catalogue", config_key)
        self._of_tools = stores.vectors(servers_hash, is_fallback=False)

    def check(self) -> None:
        """Raises `ConfigError` if a file is lost that keeps callers out or tools held."""
        try:
            self.records["tokens"].read("tokens")
            for marker in self._pin_markers.glob("*"):
                self.records["pins"].read(marker.name)
        except LostRecordError as error:
            raise ConfigError(
                f"{error}, so it cannot be copied; restore it, or accept that with: "
                "toolscript token off, or: toolscript approve"
            ) from None

    def entries(self) -> Sequence[ServerEntry]:
        """See `Side`."""
        return self._snapshot.entries()

    def replace_entries(self, entries: Sequence[ServerEntry]) -> None:
        """See `Side`."""
        self._snapshot.replace(entries)

    def vectors(self, tools: Digests) -> VectorSets:
        """See `Side`. Yields those of every set of servers."""
        del tools
        for path in (self._cache / "embeddings").rglob("embeddings-*.json"):
            if model := model_of_file(path):
                yield model, JsonVectorCache(path).load(model)

    def add_vectors(self, model: str, vectors: Mapping[str, CachedVector]) -> bool:
        """See `Side`. The file holds those of one model: the last one counts."""
        return self._of_tools.save(model, vectors)


class InDatabase:
    """What the gateways of one catalogue share; see `Side`."""

    def __init__(self, shared: SharedStores) -> None:
        names = ("tokens", "pins", "answers", "questions")
        self.records: Mapping[str, Records] = {
            **{name: shared.records(name) for name in names},
            "logins": shared.logins,
        }
        self._entries = DatabaseRecords(shared.database, shared.feed, shared.catalogue, "catalogue")
        self.activity: ActivityStorage = DatabaseActivityStore(shared.database, shared.catalogue)
        self._vectors = DatabaseVectorCache(shared.database)
        self._shared = shared

    @property
    def graph(self) -> GraphStorage:
        """See `Side`. Each is another one, which begins to load from the start."""
        return DatabaseGraphStore(self._shared.database, self._shared.feed, self._shared.catalogue)

    def entries(self) -> Sequence[ServerEntry]:
        """See `Side`."""
        contents = filter(None, map(self._entries.read, self._entries.names()))
        return [msgspec.json.decode(content, type=ServerEntry) for content in contents]

    def replace_entries(self, entries: Sequence[ServerEntry]) -> None:
        """See `Side`."""
        for name in {*self._entries.names()} - {entry.name for entry in entries}:
            self._entries.delete(name)
        for entry in entries:
            self._entries.write(entry.name, msgspec.json.encode(entry))

    def vectors(self, tools: Digests) -> VectorSets:
        """See `Side`. Yields those of the model that most of the tools have a vector of."""
        model = self._vectors.model_of([*tools.values()])
        if model:
            yield model, self._vectors.load(model, tools)

    def add_vectors(self, model: str, vectors: Mapping[str, CachedVector]) -> bool:
        """See `Side`."""
        return self._vectors.save(model, vectors)


def is_empty(side: Side) -> bool:
    """Whether there is nothing that copying would replace. Vectors do not count."""
    graph, usage = _read_learning(side)
    return not (
        any(records.names() for records in side.records.values())
        or side.entries()
        or graph.data.nodes
        or usage.drain_all().learned
        or side.activity.read(_ALL_CALLS).calls
    )


def steps(source: Side, target: Side) -> dict[str, Callable[[], int]]:
    """Returns by name what copies each store; every call returns how many values it has copied.

    A store of the target has what that of the source has afterwards, and nothing else; vectors
    are added. A call raises `OSError`.
    """
    stores = {
        name: lambda name=name: _copy_records(source.records[name], target.records[name])
        for name in source.records
    }
    return stores | {
        "servers": lambda: _copy_entries(source, target),
        "graph": lambda: _copy_graph(source, target),
        "calls": lambda: _copy_calls(source, target),
        "vectors": lambda: _copy_vectors(source, target),
    }


def _copy_records(source: Records, target: Records) -> int:
    names = source.names()
    for name in {*target.names()} - {*names}:
        target.delete(name)
    copied = 0
    for name in names:
        try:
            content = source.read(name)
        except LostRecordError as error:  # a log-in that another key has sealed
            log.warning("%s; it is left out", error)
            continue
        if content is not None:
            target.write(name, content)
            copied += 1
    return copied


def _copy_entries(source: Side, target: Side) -> int:
    entries = source.entries()
    target.replace_entries(entries)
    return len(entries)


def _copy_graph(source: Side, target: Side) -> int:
    graph, usage = _read_learning(source)
    if not target.graph.add(graph.drain_all(), usage.drain_all()):
        raise OSError("the graph cannot be written; the line above says why")
    return graph.edge_count


def _read_learning(side: Side) -> tuple[ToolGraph, Usage]:
    graph, usage = ToolGraph(), Usage()
    if not side.graph.load(graph, usage):
        raise OSError("the graph cannot be read; the line above says why")
    return graph, usage


def _copy_calls(source: Side, target: Side) -> int:
    calls = source.activity.read(_ALL_CALLS).calls[::-1]
    target.activity.restore(calls)
    return len(calls)


def _copy_vectors(source: Side, target: Side) -> int:
    tools = chain.from_iterable(entry.tools for entry in source.entries())
    count = 0
    for model, vectors in source.vectors({tool.id: tool.digest for tool in tools}):
        if not target.add_vectors(model, vectors):
            raise OSError("the vectors cannot be written; the line above says why")
        count += len(vectors)
    return count
