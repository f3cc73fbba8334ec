"""An immutable snapshot of every tool of every server, and the names of the tools."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import anyio
import msgspec

from toolscript.codegen.api_definitions import DIGITS, MAX_DIGITS, valid_name
from toolscript.gateway.definitions.comparison import (
    ChangePolicy,
    HeldTool,
    RecentChange,
    Reviewed,
    trust_of,
)
from toolscript.gateway.tool_repairs import RepairedTools, repair_tools
from toolscript.types import (
    SEPARATOR,
    Repair,
    ServerSpec,
    ServerState,
    ToolSpec,
    Transport,
    Trust,
    tool_id,
)


class ServerContents(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a server lists, as it was reviewed, and how it was reached."""

    tools: tuple[ToolSpec, ...] = ()
    """The tools as the server lists them."""
    version: str = ""
    transport: Transport | None = None
    """The transport that works; None if it is not known yet."""
    protocol: str = ""
    """The version of the protocol that it spoke the last time; empty if it may speak another."""
    rejected: tuple[str, ...] = ()
    lists: dict[str, tuple[Any, ...]] | None = None
    """The entries of its other lists, such as ``prompts/list``, by their method; None if they
    are not known yet."""
    held: tuple[HeldTool, ...] = ()
    """The tools that wait for a person's approval, and that nobody else sees."""
    recent: dict[str, RecentChange] = {}
    """Which of the tools are new or have changed, by name."""
    first_accepted: dict[str, int] = {}
    """When the tools that were ever accepted were so first, by name: Unix times."""


class ServerEntry(ServerContents, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The state of one server, in a catalogue and in a snapshot file."""

    name: str
    digest: str
    """The digest of its `ServerSpec`. Any other makes the entry stale."""
    state: ServerState
    error: str = ""
    since: str = ""

    def apply(self, repairs: Mapping[str, Repair]) -> RepairedTools:
        """Returns the tools as callers see them; the same object for the same repairs."""
        known: tuple[Mapping[str, Repair], RepairedTools] | None = vars(self).get("_repaired")
        if known is None or known[0] != repairs:
            known = repairs, repair_tools(self.tools, self.held, repairs)
            vars(self)["_repaired"] = known
        return known[1]


@dataclass(frozen=True)
class Catalogue:
    """All servers' entries by name. A change makes a new catalogue."""

    servers: Mapping[str, ServerEntry]
    repairs: Mapping[str, Mapping[str, Repair]] = field(
        default_factory=dict[str, Mapping[str, Repair]]
    )
    """The repairs of tools by server, then by the server's name of the tool."""

    @classmethod
    def of(
        cls,
        entries: Iterable[ServerEntry],
        repairs: Mapping[str, Mapping[str, Repair]] | None = None,
    ) -> "Catalogue":
        """Returns a catalogue of these entries, with the repairs of their tools."""
        by_name = {entry.name: entry for entry in sorted(entries, key=lambda e: e.name)}
        return cls(by_name, repairs or {})

    def tools_of(self, server: str) -> RepairedTools:
        """Returns the tools of a server as callers see them."""
        return self.servers[server].apply(self.repairs.get(server, {}))

    @cached_property
    def tools(self) -> dict[str, ToolSpec]:
        """Every tool by its id, in the order of the ids."""
        tools = {tool.id: tool for name in self.servers for tool in self.tools_of(name).tools}
        ids = sorted(tools)
        return tools if ids == list(tools) else {each: tools[each] for each in ids}

    @cached_property
    def held(self) -> dict[str, HeldTool]:
        """Every tool that waits for approval, by its id, in the order of the ids."""
        held = {each.tool.id: each for name in self.servers for each in self.tools_of(name).held}
        return dict(sorted(held.items()))

    def trust(self, tool: ToolSpec) -> Trust:
        """Returns whether a tool's definition is new, has changed lately, or is long known."""
        return trust_of(self.servers[tool.server].recent.get(tool.original.name))

    def accepted_at(self, identifier: str) -> int:
        """Returns the Unix time at which a tool was first accepted; 0 if none is known."""
        tool = self.tools.get(identifier)
        if tool is None:
            return 0
        return self.servers[tool.server].first_accepted.get(tool.original.name, 0)

    @cached_property
    def exposed(self) -> dict[str, str]:
        """Every tool's name for models, by the tool's id; see `exposed_names`."""
        return exposed_names(self.tools)

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {name: identifier for identifier, name in self.exposed.items()}

    def find(self, name: str) -> ToolSpec | None:
        """Returns the tool with this id, else this exposed name, else this ``server:tool``."""
        identifier = name if name in self.tools else self._ids.get(name)
        server, colon, rest = name.partition(":")
        if identifier is None and colon:
            identifier = tool_id(server, rest)
        return self.tools.get(identifier or "")

    def find_held(self, name: str) -> HeldTool | None:
        """Returns the held tool with this id, or this ``server:tool``."""
        return self.held.get(name) or self.held.get(name.replace(":", SEPARATOR, 1))

    def replacing(self, entry: ServerEntry) -> "Catalogue":
        """Returns this catalogue with one server's entry replaced or added."""
        return Catalogue.of({**self.servers, entry.name: entry}.values(), self.repairs)

    def under(self, policy: ChangePolicy) -> "Catalogue":
        """Returns this catalogue without servers that have to list their tools for a policy."""
        if policy not in {"note", "trust"}:
            return self
        every = self.servers.values()
        return Catalogue.of(entry for entry in every if all(held.rejected for held in entry.held))

    def keeping(self, specs: Mapping[str, ServerSpec]) -> "Catalogue":
        """Returns this catalogue with only these servers, and with the tools of their entries."""
        entries = self.servers.items()
        return Catalogue.of(
            (_configure(entry, specs[name]) for name, entry in entries if name in specs),
            {name: spec.repairs for name, spec in specs.items() if spec.repairs},
        )


class ObservableCatalogue:
    """The current catalogue. One event loop publishes; any thread may read.

    Args:
        current: The first one.
    """

    def __init__(self, current: Catalogue) -> None:
        self.current = current
        self._changed = anyio.Event()

    def publish(self, catalogue: Catalogue) -> None:
        """Makes this the current catalogue."""
        self.current = catalogue
        self._changed.set()
        self._changed = anyio.Event()

    def publish_entry(self, entry: ServerEntry) -> None:
        """Publishes the catalogue with another entry of one server."""
        self.publish(self.current.replacing(entry))

    def entry(self, server: str) -> ServerEntry | None:
        """Returns the state of a server."""
        return self.current.servers.get(server)

    async def changed(self, seen: Catalogue | None) -> Catalogue:
        """Returns the current catalogue, once it differs from ``seen``."""
        while self.current is seen:
            await self._changed.wait()
        return self.current


def contents_of(reviewed: Reviewed) -> dict[str, Any]:
    """Returns the fields of `ServerContents` that a review of definitions gives."""
    fields = msgspec.structs.asdict(reviewed)
    return {"tools": fields.pop("accepted")} | fields


def _configure(entry: ServerEntry, spec: ServerSpec) -> ServerEntry:
    """Returns an entry with the tools that the configuration includes, of the classes it gives."""
    given = [(tool, spec.class_of(tool.name)) for tool in entry.tools if spec.offers(tool.name)]
    if len(given) == len(entry.tools) and all(tool.config_class == c for tool, c in given):
        return entry
    replace = msgspec.structs.replace
    return replace(entry, tools=tuple(replace(tool, config_class=c) for tool, c in given))


def exposed_names(identifiers: Iterable[str]) -> dict[str, str]:
    """Returns each tool id's name for models: see `valid_name`.

    Ids that would get the same name, or another tool's, get more digits.
    """
    ordered = sorted(set(identifiers))
    names = {
        identifier: identifier for identifier in ordered if valid_name(identifier) == identifier
    }
    taken = set(names.values())
    for identifier in ordered:
        if identifier not in names:
            candidates = (valid_name(identifier, digits) for digits in range(DIGITS, MAX_DIGITS))
            names[identifier] = next(name for name in candidates if name not in taken)
            taken.add(names[identifier])
    return names
