"""The catalogue: every tool of every server, as one immutable snapshot."""

import hashlib
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from toolscript.types import State, ToolSpec, tool_id

MAX_EXPOSED = 64
"""Longest name that model vendors accept for a tool."""
_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one server: as a catalogue holds it and a snapshot file keeps it."""

    name: str
    digest: str
    """The digest of the `ServerSpec` it was learned with: another one makes it stale."""
    state: State
    tools: tuple[ToolSpec, ...] = ()
    error: str = ""
    since: str = ""
    version: str = ""
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Catalogue:
    """All servers' entries by name. A change makes a new catalogue."""

    servers: Mapping[str, ServerEntry]

    @classmethod
    def of(cls, entries: Iterable[ServerEntry]) -> "Catalogue":
        """A catalogue of these entries."""
        return cls({entry.name: entry for entry in sorted(entries, key=lambda e: e.name)})

    @cached_property
    def tools(self) -> dict[str, ToolSpec]:
        """Every tool by its id, in the order of the ids."""
        found = {tool.id: tool for entry in self.servers.values() for tool in entry.tools}
        return dict(sorted(found.items()))

    @cached_property
    def exposed(self) -> dict[str, str]:
        """Every tool's name for models by its id; see `exposed_names`."""
        return exposed_names(self.tools)

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {name: identifier for identifier, name in self.exposed.items()}

    def find(self, name: str) -> ToolSpec | None:
        """The tool of an id, an exposed name or ``server:tool``; an id is what it says first."""
        identifier = name if name in self.tools else self._ids.get(name)
        server, colon, rest = name.partition(":")
        if identifier is None and colon:
            identifier = tool_id(server, rest)
        return self.tools.get(identifier or "")

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every tool: equal digests mean equal tools."""
        digests = "\n".join(tool.digest for tool in self.tools.values())
        return hashlib.sha256(digests.encode()).hexdigest()

    def replacing(self, entry: ServerEntry) -> "Catalogue":
        """This catalogue with one server's entry put in."""
        return Catalogue.of([*(e for n, e in self.servers.items() if n != entry.name), entry])

    def keeping(self, names: Container[str]) -> "Catalogue":
        """This catalogue with no other servers than these."""
        return Catalogue.of(entry for name, entry in self.servers.items() if name in names)


@dataclass(frozen=True, slots=True)
class Diff:
    """What makes one catalogue into another: tool ids."""

    added: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]

    def __bool__(self) -> bool:
        """Whether anything differs."""
        return bool(self.added or self.changed or self.removed)


def diff(old: Catalogue, new: Catalogue) -> Diff:
    """The tools that appeared, changed in anything they advertise, or are gone."""
    before = {identifier: tool.digest for identifier, tool in old.tools.items()}
    after = {identifier: tool.digest for identifier, tool in new.tools.items()}
    common = before.keys() & after.keys()
    return Diff(
        added=frozenset(after.keys() - before.keys()),
        changed=frozenset(i for i in common if before[i] != after[i]),
        removed=frozenset(before.keys() - after.keys()),
    )


def exposed_names(identifiers: Iterable[str]) -> dict[str, str]:
    """Tool id → the name shown to a model: at most 64 of ``A-Z a-z 0-9 _ -``.

    An id that fits is its own name. Any other is cut and gets a part of its
    SHA-256, so its name depends on nothing but the id; in the improbable case
    of two alike, as many more digits as it takes.
    """
    ordered = sorted(set(identifiers))
    names = {i: i for i in ordered if len(i) <= MAX_EXPOSED and not _ALLOWED.search(i)}
    taken = set(names.values())
    for identifier in ordered:
        if identifier not in names:
            names[identifier] = _fitted(identifier, taken)
            taken.add(names[identifier])
    return names


def _fitted(identifier: str, taken: set[str]) -> str:
    digest = hashlib.sha256(identifier.encode()).hexdigest()
    plain = _ALLOWED.sub("_", identifier)
    for digits in range(8, MAX_EXPOSED - 1):
        name = f"{plain[: MAX_EXPOSED - digits - 1]}-{digest[:digits]}"
        if name not in taken:
            return name
    raise AssertionError("SHA-256 collision")
