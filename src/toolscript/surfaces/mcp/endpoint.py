"""What is behind the MCP door, for one way of exposing it. Knows no transport and no SDK."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from toolscript.app.application import App
from toolscript.app.argument_checks import check_arguments
from toolscript.errors import (
    InputError,
    RefusedError,
    ToolscriptError,
    UnknownNameError,
    UpstreamError,
)
from toolscript.gateway.base import SILENT_CALLER, Caller
from toolscript.gateway.raw_results import RawResult, UnreadableError, decode_moderate
from toolscript.graph.session_history import SessionHistory
from toolscript.surfaces.mcp import meta_tools as tools
from toolscript.surfaces.mcp import wire
from toolscript.surfaces.server.audit_log import audited
from toolscript.types import EVERYTHING, Grant, SearchRequest, ToolSpec

Exposure = Literal["search", "two-phase", "all"]
EXPOSURES: tuple[Exposure, ...] = ("search", "two-phase", "all")
PATIENCE_S = 5.0
_Raw: TypeAlias = dict[str, Any]
_Answer: TypeAlias = "Callable[[_Raw, RequestContext], Awaitable[_Raw]]"


@dataclass(eq=False, slots=True)
class Session:
    """What one client's session has chosen, the second of two phases, and what it has done."""

    chosen: tuple[str, ...] = ()
    history: SessionHistory = field(default_factory=SessionHistory)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks: to be told and asked, what is theirs, what their session has chosen."""

    caller: Caller = SILENT_CALLER
    grant: Grant = EVERYTHING
    session: Session = field(default_factory=Session)
    more: _Raw = field(default_factory=dict[str, Any])
    """What goes along with a call, such as ``_meta``."""


class ToolEndpoint:
    """Lists and calls tools for models, as the exposure has it. Holds nothing about anybody."""

    def __init__(self, app: App, exposure: Exposure) -> None:
        self._app = app
        self.exposure: Exposure = exposure
        mine: dict[Exposure, dict[str, _Answer]] = {
            "search": {
                tools.SEARCH: self._search,
                tools.DESCRIBE: self._describe,
                tools.CALL: self._call,
                tools.SKILLS: self._search_skills,
                tools.READ: self._read_skill,
            },
            "two-phase": {tools.FIND: self._find, tools.CALL: self._call},
            "all": {tools.SKILLS: self._search_skills, tools.READ: self._read_skill},
        }
        self._mine = mine[exposure]

    def tools(self, asker: RequestContext) -> list[_Raw]:
        """What ``tools/list`` lists, as on the wire."""
        names = self._app.exposed
        return [*self._own(asker), *(wire.tool(t, names[t.id]) for t in self._visible(asker))]

    async def call(self, name: str, arguments: _Raw, asker: RequestContext) -> _Raw:
        """What ``tools/call`` answers.

        A mistake that a model can put right is a result that says so. Raises
        `RefusedError` for a server's own refusal and `UnknownNameError` for a
        name that is neither ours nor a tool's.
        """
        answers = self._mine.get(name)
        try:
            if answers is not None:
                given = _lenient(arguments)
                check_arguments(name, _SCHEMAS[name], given)
                return await answers(given, asker)
            return await self._called(name, arguments, asker)
        except (RefusedError, UnknownNameError) as problem:
            if answers is None or isinstance(problem, RefusedError):
                raise
            return wire.failure(problem)
        except ToolscriptError as problem:
            return wire.failure(problem)

    def _own(self, asker: RequestContext) -> list[_Raw]:
        if self.exposure == "all":
            return self._skills(asker)
        behind = tools.summary(self._app.servers(asker.grant))
        if self.exposure == "search":
            count = len(self._app.skill_service.skills(asker.grant))
            own = [tools.search_tools(behind, count), tools.describe_tools(), tools.call_tool()]
            return [*own, *self._skills(asker)]
        later = [tools.call_tool()] if asker.session.chosen else []
        return [tools.tool_search(behind), *later]

    def _skills(self, asker: RequestContext) -> list[_Raw]:
        """What is only listed where there is something behind it: skills, the seed's pair."""
        count = len(self._app.skill_service.skills(asker.grant))
        pair = [wire.tool(spec, spec.id) for spec in self._app.own(asker.grant)]
        return [*([tools.search_skills(count), tools.read_skill()] if count else []), *pair]

    def _visible(self, asker: RequestContext) -> list[ToolSpec]:
        """The servers' tools that are listed."""
        if self.exposure == "all":
            return self._app.tools(grant=asker.grant)
        found = {tool.id: tool for tool in self._app.pinned(asker.grant)}
        wanted = set(asker.session.chosen)
        if wanted:
            every = self._app.tools(grant=asker.grant)
            found |= {tool.id: tool for tool in every if tool.id in wanted}
        return list(found.values())

    async def _search(self, arguments: _Raw, asker: RequestContext) -> _Raw:
        waiting = await self._acquainted(asker)
        passed = arguments.get("context_tools")
        context = tuple(self._ids(passed, asker)) if passed else asker.session.history.context
        limit = arguments.get("limit", tools.SEARCH_LIMIT)
        both = bool(arguments.get("include_skills"))
        request = replace(self._request(arguments, limit, asker, context), skills=both)
        result = await self._app.search(request, asker.session.history)
        every = {tool.id: tool for tool in self._app.tools(grant=asker.grant)}
        hits = tuple(h for h in result.hits if h.document.parent_id or h.document.id in every)
        found = wire.found(arguments["query"], replace(result, hits=hits), every, mark=both)
        found["meta"] |= {"waiting_for": waiting} if waiting else {}
        return wire.answer(found)

    async def _find(self, arguments: _Raw, asker: RequestContext) -> _Raw:
        await self._acquainted(asker)
        limit = arguments.get("max_tools", tools.FIND_LIMIT)
        history = asker.session.history
        request = self._request(arguments, limit, asker, history.context)
        result = await self._app.search(request, history)
        names = self._app.exposed
        hits = tuple(hit for hit in result.hits if hit.document.id in names)
        asker.session.chosen = tuple(hit.document.id for hit in hits)
        return wire.answer(wire.chosen(replace(result, hits=hits), names))

    async def _search_skills(self, arguments: _Raw, asker: RequestContext) -> _Raw:
        limit = arguments.get("limit", tools.SKILLS_LIMIT)
        result = await self._app.search_skills(self._request(arguments, limit, asker, ()))
        return wire.answer(wire.skills(arguments["query"], result))

    async def _read_skill(self, arguments: _Raw, asker: RequestContext) -> _Raw:
        file = arguments.get("file", "")
        return wire.page((await self._app.read_skill(arguments["skill"], file, asker.grant)).text)

    async def _describe(self, arguments: _Raw, asker: RequestContext) -> _Raw:
        found = [await self._app.tool_when_ready(name, asker.grant) for name in arguments["tools"]]
        return wire.answer({"tools": [wire.described(tool) for tool in found]})

    async def _call(self, arguments: _Raw, asker: RequestContext) -> _Raw:
        return await self._called(arguments["tool"], arguments.get("arguments", {}), asker)

    async def _called(self, name: str, arguments: _Raw, asker: RequestContext) -> _Raw:
        history = asker.session.history
        called = self._app.call(
            name, arguments, asker.caller, asker.grant, history=history, **asker.more
        )
        result = await audited(name, called)
        if not isinstance(result, RawResult):
            return result
        try:
            return await anyio.to_thread.run_sync(decode_moderate, result.text)
        except UnreadableError as error:
            raise UpstreamError(f"{name}: {error}") from None

    async def _acquainted(self, asker: RequestContext) -> list[str]:
        """Wait a little for servers of which nothing is known yet; those that keep us waiting.

        A model that does not find a tool believes that there is none, and one that
        is told to try again may not. What is remembered of a server is there at once.
        """
        if self._strangers(asker) or not self._app.searchable:
            with anyio.move_on_after(PATIENCE_S):
                await self._app.ready()
        return self._strangers(asker)

    def _strangers(self, asker: RequestContext) -> list[str]:
        statuses = self._app.servers(asker.grant)
        return [each.name for each in statuses if each.state == "connecting" and not each.tools]

    def _request(
        self, arguments: _Raw, limit: int, asker: RequestContext, context: tuple[str, ...]
    ) -> SearchRequest:
        return SearchRequest(
            text=arguments["query"],
            limit=limit,
            threshold=0.0,
            grant=asker.grant,
            context=context,
            needed=arguments.get("needed", False),
        )

    def _ids(self, names: list[str], asker: RequestContext) -> list[str]:
        """The ids of tools that are still there."""
        found: list[str] = []
        for name in names:
            try:
                found.append(self._app.tool(name, asker.grant).id)
            except InputError:
                continue
        return found


_SCHEMAS: dict[str, _Raw] = {
    entry["name"]: entry["inputSchema"]
    for entry in (
        tools.search_tools("", skills=1),
        tools.search_skills(0),
        tools.read_skill(),
        tools.describe_tools(),
        tools.call_tool(),
        tools.tool_search(""),
    )
}


def _lenient(arguments: _Raw) -> _Raw:
    """Arguments for another tool that came as the text of an object: some models do that."""
    given = arguments.get("arguments")
    if not isinstance(given, str):
        return arguments
    try:
        return {**arguments, "arguments": json.loads(given or "{}")}
    except ValueError:
        return arguments
