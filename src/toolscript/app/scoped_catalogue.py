"""The servers and tools that one caller may see and use, and the messages about the others."""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio.to_thread
from msgspec.structs import replace

from toolscript.app.builtin_tools import BuiltinTool
from toolscript.app.tool_permissions import ToolPermissions
from toolscript.config.locations import EXAMPLE
from toolscript.errors import (
    DeniedError,
    HeldError,
    NotConnectedError,
    NotPermittedError,
    NotReadyError,
    RefusedError,
    UnknownNameError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller, without_last_words
from toolscript.gateway.definitions.comparison import HeldTool, Version, held_message
from toolscript.gateway.gateway import Gateway
from toolscript.retrieval.lexical.spelling import not_known
from toolscript.text.display import counted, printable
from toolscript.types import (
    RESULT_LIMIT,
    SEPARATOR,
    Grant,
    MissExplanation,
    ServerResources,
    ServerStatus,
    ToolSpec,
    Trust,
    as_id,
    tool_id,
)
from toolscript.types.patterns import matches

if TYPE_CHECKING:
    from toolscript.codegen.typed_clients import Language, Module, ToolCode


class KnownTool(NamedTuple):
    """A tool, and how its definition came to be accepted."""

    spec: ToolSpec
    trust: Trust


@dataclass(frozen=True, slots=True)
class ScopedCatalogue:
    """A gateway as a grant shows it. Holds nothing; it is made for one answer."""

    gateway: Gateway
    builtin: Sequence[BuiltinTool]
    grant: Grant
    permissions: ToolPermissions

    def servers(self) -> list[ServerStatus]:
        """Every configured server that the caller may know, by name."""
        return [self._within(status) for status in self._statuses()]

    async def resources(self, server: str | None = None) -> Mapping[str, ServerResources]:
        """Measures the processes of one server, or of all, and returns the figures by name.

        Nothing is measured unless everything is granted.
        """
        return await self.gateway.resources(server) if self.grant.is_whole else {}

    def tools(self, server: str | None = None) -> list[ToolSpec]:
        """Every tool that is the caller's, or one server's, by id."""
        if server is not None:
            self.check((server,))
        every = self.gateway.catalogue.tools.values()
        allows = self._allows()
        return [t for t in every if server in {None, t.server} and allows(t.id)]

    def _allows(self) -> Callable[[str], bool]:
        """Returns whether the caller may find and call the tool of an id."""
        denied = self.permissions.denied(self.grant)
        return lambda identifier: identifier not in denied and self.grant.allows(identifier)

    def tool(self, name: str) -> ToolSpec:
        """The tool of this id or exposed name; `UnknownNameError` names the nearest instead."""
        found = self.gateway.catalogue.find(name)
        if found is not None and self._allows()(found.id):
            return found
        if problem := self._withheld(name):
            raise problem
        raise UnknownNameError(self._unknown(name))

    def _withheld(self, name: str) -> NotPermittedError | None:
        """Returns why a granted tool is neither found nor called, for those who may know."""
        catalogue = self.gateway.catalogue
        found, held = catalogue.find(name), catalogue.find_held(name)
        if found is not None and self.grant.is_owner and self.grant.allows(found.id):
            _, why = self.permissions.decision(self.grant, found)
            return DeniedError(f"{found.id} may not be called: {why}")
        if held is not None and self.grant.allows(held.tool.id):
            decision, _ = self.permissions.decision(self.grant, held.tool)
            if decision != "deny" or self.grant.is_owner:
                return HeldError(held_message(held))
        return None

    def held(self) -> list[HeldTool]:
        """Returns the tools that wait for approval, by id; none but for the owner."""
        return [*self.gateway.catalogue.held.values()] if self.grant.is_owner else []

    def is_awaited(self, identifier: str) -> bool:
        """Whether a tool is held that the caller might call if the owner approved it."""
        held = self.gateway.catalogue.held.get(identifier)
        if held is None or held.rejected or not self.grant.allows(identifier):
            return False
        return self.permissions.decision(self.grant, held.tool)[0] != "deny"

    def changed(self) -> list[str]:
        """Returns the ids of changed tools that no person has approved; none but for the owner."""
        catalogue = self.gateway.catalogue
        tools = catalogue.tools.values() if self.grant.is_owner else ()
        return [tool.id for tool in tools if catalogue.trust(tool) == "changed"]

    async def versions(self, tool: ToolSpec) -> tuple[Version, ...]:
        """Returns the definitions of a tool that were accepted, the newest last."""
        return await self.gateway.versions(tool)

    def tools_by_id(self, identifiers: Iterable[str]) -> dict[str, KnownTool]:
        """Returns those of the caller's tools that have these ids, by id."""
        catalogue, allows = self.gateway.catalogue, self._allows()
        found = (catalogue.tools.get(identifier) for identifier in identifiers)
        return {
            tool.id: KnownTool(tool, catalogue.trust(tool))
            for tool in found
            if tool is not None and allows(tool.id)
        }

    def server_of(self, name: str) -> str:
        """The server that the name of a tool belongs to; empty if the caller knows none."""
        found = self.gateway.catalogue.find(name)
        if found is not None and self.grant.allows(found.id):
            return found.server
        builtin = self.builtin_tool(name)
        if builtin is not None:
            return builtin.spec.server
        # A tool that is not granted is the same as one that is not there.
        server = self._server_in(name)
        return server if server in self._server_names() and self.grant.shows(server) else ""

    def result_limit(self, tool: ToolSpec) -> int:
        """Returns how many characters of a tool's result a model gets."""
        return self.gateway.result_limit(tool)

    @property
    def longest_result(self) -> int:
        """How many characters of any tool's result a model gets at most."""
        specs = (spec for spec in self.gateway.config.servers if self.grant.shows(spec.name))
        limits = (limit for spec in specs for limit in spec.result_limits.values())
        return max([RESULT_LIMIT, *limits])

    def id_of(self, name: str) -> str:
        """Returns the id of the tool of a name; the name if the caller knows no such tool."""
        builtin, catalogue = self.builtin_tool(name), self.gateway.catalogue
        if builtin is not None:
            return builtin.spec.id
        held = catalogue.find_held(name)
        tool = catalogue.find(name) or (held.tool if held is not None else None)
        return tool.id if tool is not None and self.grant.allows(tool.id) else name

    async def tool_when_ready(self, name: str) -> ToolSpec:
        """Does the same as `tool`, having waited for its server if that is still connecting."""
        catalogue = self.gateway.catalogue
        if catalogue.find(name) is None and catalogue.find_held(name) is None:
            await self.gateway.settle(self._server_in(name))
        return self.tool(name)

    async def reach_server(self, name: str, caller: Caller) -> None:
        """Asks the server of an unknown tool again if that has failed.

        Raises `UpstreamError` if that still has no connection: for want of a login, perhaps.
        """
        server = self._server_in(name)
        if any(status.name == server and status.state == "failed" for status in self._statuses()):
            with suppress(RefusedError):  # which is an answer: the newest protocol has no pings
                await self.request(server, "ping", {}, caller)

    async def restart(self, server: str, caller: Caller = SILENT_CALLER) -> None:
        """Starts a server anew, and returns once it answers; raises `UpstreamError` if not."""
        self.gateway.restart(server)
        with suppress(RefusedError):  # see `reach_server`
            await self.request(server, "ping", {}, caller)

    def pinned(self) -> list[ToolSpec]:
        """Those of the caller's tools that models always see, by id."""
        allows = self._allows()
        return [tool for tool in self.gateway.pinned() if allows(tool.id)]

    @property
    def exposed(self) -> Mapping[str, str]:
        """Every tool's name for models by its id."""
        return self.gateway.catalogue.exposed

    def builtin_tool(self, name: str) -> BuiltinTool | None:
        """The built-in tool of a name, unless a server of the configuration has taken it."""
        taken = {server.name for server in self.gateway.config.servers}
        for tool in self.builtin:
            if tool.answers_to(name) and tool.spec.server not in taken:
                return tool if self.grant.allows(tool.spec.id) else None
        return None

    async def request(
        self, server: str, method: str, params: dict[str, Any], caller: Caller = SILENT_CALLER
    ) -> dict[str, Any]:
        """Returns a server's result; raises the errors of `Upstream.send`."""
        try:
            return await self.gateway.route(server, method, params, caller)
        except NotConnectedError as error:
            if self.grant.is_owner:
                raise
            raise NotConnectedError(without_last_words(str(error))) from None

    def resting_list(self, server: str, method: str) -> Sequence[dict[str, Any]] | None:
        """The entries that a resting server last gave; None if it has to be asked."""
        return self.gateway.resting_list(server, method) if self.grant.shows(server) else None

    def check(self, servers: Iterable[str]) -> None:
        """Raise `UnknownNameError` for a server that is not configured."""
        asked = list(servers)
        known = {status.name for status in self._statuses()} if asked else set[str]()
        for name in asked:
            if name not in known:
                raise UnknownNameError(self._no_server(name))

    async def module(self, language: "Language", names: Sequence[str] = ()) -> "Module":
        """Returns a typed client of the tools that ``names`` choose, or of all if there is none.

        A name is a server's or a tool's id; a server that is still connecting is waited for.
        Raises `UnknownNameError` with every name that chooses nothing, and
        `NotReadyError` if there is no tool at all.
        """
        for name in names:
            if not self._chosen(name):
                await self.gateway.settle(self._server_in(name))
        chosen = [self._chosen(name) for name in names] or [self.tools()]
        unknown = [name for name, tools in zip(names, chosen, strict=False) if not tools]
        if unknown:
            raise UnknownNameError("; ".join(map(self._unchosen, unknown)))
        ids = tuple(dict.fromkeys(tool.id for tools in chosen for tool in tools))
        if not ids:
            raise NotReadyError(self.nothing())
        tools = self.gateway.catalogue.tools
        from toolscript.codegen.typed_clients import make_module  # noqa: PLC0415 - seldom used

        return await anyio.to_thread.run_sync(make_module, tools, language, ids)

    async def code(self, tool: ToolSpec, arguments: Any) -> "dict[Language, ToolCode]":
        """Returns the types of a tool, and a call with these arguments, in each language."""
        from toolscript.codegen.typed_clients import tool_code  # noqa: PLC0415 - seldom used

        tools = self.gateway.catalogue.tools
        return await anyio.to_thread.run_sync(tool_code, tools, tool.id, arguments)

    def _chosen(self, name: str) -> list[ToolSpec]:
        """The tool of this id, or the tools of this server."""
        catalogue = self.gateway.catalogue
        tool = catalogue.find(name)
        found = (tool,) if tool else ()
        if name in catalogue.servers:
            found = catalogue.tools_of(name).tools
        allows = self._allows()
        return [tool for tool in found if allows(tool.id)]

    def _unchosen(self, name: str) -> str:
        """Returns why a name chooses no tool."""
        for status in self.servers():
            if status.name == name:
                return f"the server {name!r} has no tools ({status.error or status.state})"
        return self._unknown(name) if SEPARATOR in as_id(name) else self._no_server(name)

    def why_missing(self, name: str) -> MissExplanation:
        """Why a tool that was asked after cannot be found at all."""
        if problem := self._withheld(name):
            return MissExplanation(id=name, verdict=str(problem))
        server = self._server_in(name)
        tool = _tool_in(name, server)
        shown = self.grant.allows(tool_id(server, tool))
        known = self._why_excluded(server, tool) or self.gateway.why_missing(server, tool)
        known = known if shown else ""
        known = known if self.grant.is_owner else without_last_words(known)
        return MissExplanation(id=name, verdict=known or self._unknown(name))

    def not_searched(self, servers: Collection[str] = ()) -> list[ServerStatus]:
        """Those of the given servers, or of all, that should work and whose tools are not known."""
        asked = [s for s in self._statuses() if not servers or s.name in servers]
        missing = [self._within(s) for s in asked if not (s.works or s.state == "disabled")]
        return [s for s in missing if not s.tools]

    def unsettled(self) -> tuple[str, ...]:
        """The servers that have neither become ready nor failed yet."""
        return tuple(name for name in self.gateway.unsettled if self.grant.shows(name))

    def nothing(self) -> str:
        """Why there is no tool to be searched."""
        waiting = self.unsettled()
        if waiting:
            return f"no tools yet: waiting for {', '.join(waiting)}; try again in a moment"
        if self.tools():
            return "the tools are being indexed; try again in a moment"
        bad = [f"{s.name} ({s.error or s.state})" for s in self.servers() if not s.works]
        if bad:
            return f"no tools: {'; '.join(bad)}"
        if not self.gateway.statuses():
            return f"no tools: the configuration names no server; add one, such as {EXAMPLE}"
        held = [each for each in self.gateway.catalogue.held if self.grant.allows(each)]
        if held:
            tools = counted(len(held), "tool")
            return f"no tools: {tools} held; the owner sees why with: toolscript review"
        return "no tools: the configured servers offer none that this caller may use"

    def _statuses(self) -> list[ServerStatus]:
        return [status for status in self.gateway.statuses() if self.grant.shows(status.name)]

    def _within(self, status: ServerStatus) -> ServerStatus:
        if not self.grant.is_owner:
            status = replace(status, error=without_last_words(status.error))
        catalogue = self.gateway.catalogue
        if status.name not in catalogue.servers:
            return status
        allows = self._allows()
        theirs = sum(allows(tool.id) for tool in catalogue.tools_of(status.name).tools)
        if self.grant.is_whole:
            return replace(status, tools=theirs)
        return replace(status, tools=theirs, rejected=(), held=0)

    def _server_names(self) -> set[str]:
        """Returns the names of all servers of the configuration, also of those that are invalid."""
        config = self.gateway.config
        return {each.name for each in config.servers} | {each.server for each in config.problems}

    def _server_in(self, name: str) -> str:
        """Returns the server's part of a tool's id, or of its name for models.

        A colon parts it from the tool's name, too, and a server's name may have one.
        """
        known = [s for s in self._server_names() if name.startswith((f"{s}{SEPARATOR}", f"{s}:"))]
        return max(known, key=len, default=re.split(f"{SEPARATOR}|:", name, maxsplit=1)[0])

    def _unknown(self, name: str) -> str:
        """Returns why no tool has a name: its server does not work, or it is misspelled."""
        server = self._server_in(name)
        status = next((each for each in self.servers() if each.name == server), None)
        if status is not None and status.state == "disabled":
            return self._say_off(server, server)
        if excluded := self._why_excluded(server, _tool_in(name, server)):
            return excluded
        if status is not None and not status.works:
            error = f": {status.error}" if status.error else ""
            return f"its server {server} is {status.state}{error}"
        known = [tool.id for tool in self.tools()]
        return not_known("tool", name, known, "search for what it should do")

    def _why_excluded(self, server: str, tool: str) -> str:
        """Returns the line about a granted tool that ``excludeTools`` names; "" without one."""
        lists = (spec.exclude_tools for spec in self.gateway.config.servers if spec.name == server)
        pattern = next((each for listed in lists for each in listed if matches(tool, (each,))), "")
        name = tool_id(server, tool)
        named = pattern and self.grant.allows(name)
        return self._say_off(name, tool_id(server, pattern)) if named else ""

    def _say_off(self, name: str, pattern: str) -> str:
        back = f" (back: toolscript enable {shlex.quote(pattern)})" if self.grant.is_owner else ""
        return f"{name} is turned off{back}"

    def _no_server(self, name: str) -> str:
        known = ", ".join(status.name for status in self._statuses()) or "none"
        return f"no server is called {printable(name, 100)!r}; configured are: {known}"


def _tool_in(name: str, server: str) -> str:
    """Returns the rest of a tool's id, or of its name for models, behind the server's part."""
    return re.sub(f"^(?:{SEPARATOR}|:)", "", name[len(server) :])
