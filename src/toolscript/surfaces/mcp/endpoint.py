"""Lists and answers the tools that models see, for one exposure. Knows no transport and no SDK."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeAlias, cast

import anyio
from msgspec.structs import replace

from toolscript.app.application import App
from toolscript.app.argument_checks import check_arguments, check_places
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.codegen.api_definitions import list_entry
from toolscript.errors import (
    InputError,
    RefusedError,
    ToolClassError,
    ToolscriptError,
    UnknownNameError,
)
from toolscript.retrieval.profiles import SEARCH_SKILLS, SEARCH_TOOLS, TOOL_SEARCH
from toolscript.surfaces.mcp import meta_tools, search_lines, wire
from toolscript.surfaces.mcp.meta_tools import OFFERED, SCHEMAS, SKILL_TOOLS, allow_long_results
from toolscript.surfaces.mcp.request_context import (
    Exposure,
    RequestContext,
    arguments_of,
    name_of,
    read_search,
)
from toolscript.surfaces.mcp.resource_uris import name_page
from toolscript.surfaces.mcp.tool_calls import ToolCalls
from toolscript.text.display import printable
from toolscript.text.wire_constants import CALLS, DESCRIBE, FIND, MORE, READ, RUN, SEARCH, SKILLS
from toolscript.types import TOOL_CLASSES, ToolClass, ToolSpec

PATIENCE_S = 5.0
"""How long a search waits for servers whose tools are not known yet."""
_Raw: TypeAlias = dict[str, Any]
_CALLS: dict[str, ToolClass] = {name: tool_class for tool_class, name in CALLS.items()}
"""The class of the tools that each of our tools calls."""


class ToolEndpoint:
    """Lists and calls the tools of one exposure. Keeps nothing between requests.

    Args:
        app: Searches and describes the tools.
        calls: Calls the tools, and has the exposure. If it answers in detail, so do searches: in
            JSON with all scores, and what is JSON is structured content as well.
    """

    def __init__(self, app: App, calls: ToolCalls) -> None:
        self._app = app
        self.calls = calls
        self._in_detail = calls.in_detail
        self.exposure: Exposure = calls.exposure
        self._answers: dict[str, Callable[[_Raw, RequestContext], Awaitable[_Raw]]] = {
            SEARCH: self._search,
            DESCRIBE: self._describe,
            **{name: partial(self._call, each) for name, each in _CALLS.items()},
            FIND: self._find,
            RUN: self._run_script,
            MORE: self._read_more,
            SKILLS: self._search_skills,
            READ: self._read_skill,
        }

    def tools(self, context: RequestContext) -> list[_Raw]:
        """Returns the entries of ``tools/list``: meta tools, then servers' tools."""
        catalogue, entries = self._catalogue(context), self._list_meta_tools(context)
        names = catalogue.exposed
        for tool in self._list_tools(context):
            entry = allow_long_results(
                list_entry(tool, names[tool.id]), catalogue.result_limit(tool)
            )
            entries.append(name_page(entry, tool))
        return entries

    def _list_meta_tools(self, context: RequestContext) -> list[_Raw]:
        has_skills = bool(self._app.skills(context.grant, by_model=True).all())
        hidden = set[str]() if has_skills else set(SKILL_TOOLS)
        if self.exposure == "two-phase":  # they work unlisted if a client does not list again
            hidden |= {*_CALLS, RUN, MORE}
        if self._in_detail:  # the seed's wire has no sessions, and results as they are
            hidden |= {RUN, MORE}
        if not self._app.runs_scripts:
            hidden.add(RUN)
        listed = meta_tools.meta_tools(self._summary(context), has_skills=has_skills)
        longest = dict.fromkeys((*_CALLS, RUN, MORE), self._catalogue(context).longest_result)
        offered = [name for name in listed if name in OFFERED[self.exposure] - hidden]
        return [allow_long_results(listed[name], longest.get(name, 0)) for name in offered]

    def has_pages(self, context: RequestContext) -> bool:
        """Whether a tool that is listed has a page, which a client may show: see `name_page`."""
        return any(tool.page for tool in self._list_tools(context))

    def instructions(self, context: RequestContext) -> str:
        """Returns the instructions for a model at the beginning of a session."""
        return meta_tools.instructions(self.exposure, self._summary(context))

    def _summary(self, context: RequestContext) -> str:
        session = context.session
        if not session.summary:
            servers = self._catalogue(context).servers()
            off = {"disabled", "invalid"}
            session.summary = meta_tools.summary(s.name for s in servers if s.state not in off)
        return session.summary

    async def list_tools(self, _: _Raw, context: RequestContext) -> _Raw:
        """Returns the result of ``tools/list``."""
        return {"tools": self.tools(context)}

    async def call_tool(self, params: _Raw, context: RequestContext) -> _Raw:
        """Returns the result of ``tools/call``.

        An error that a model can put right is a result that says so. Raises
        `RefusedError` for a server's own refusal and `UnknownNameError` for a
        name that is neither a meta tool's nor a server's tool's.
        """
        name, arguments = name_of(params), arguments_of(params)
        is_meta = name in OFFERED[self.exposure]
        try:
            if not is_meta:
                return await self.calls.call_tool(name, arguments, context)
            given = check_arguments(name, self._schema(name, context), arguments, ours=True)
            return await self._answers[name](dict(given), context)
        except RefusedError:
            raise
        except ToolscriptError as problem:
            if isinstance(problem, UnknownNameError) and not is_meta:
                if near := get_close_matches(name, sorted(OFFERED[self.exposure]), 1, 0.8):
                    raise UnknownNameError(_use_itself(name, near[0])) from None
                raise
            return wire.failure(problem)

    def _schema(self, name: str, context: RequestContext) -> _Raw:
        """Returns the input schema of a meta tool as it is listed."""
        has_skills = name == SEARCH and bool(self._app.skills(context.grant, by_model=True).all())
        return SCHEMAS[has_skills][name]

    def _catalogue(self, context: RequestContext) -> ScopedCatalogue:
        return self._app.catalogue(context.grant)

    def _list_tools(self, context: RequestContext) -> list[ToolSpec]:
        """Returns the servers' tools that are listed: every one, or the pinned and chosen."""
        catalogue = self._catalogue(context)
        if self.exposure == "all":
            return catalogue.tools()
        pinned = [tool for tool in catalogue.pinned() if tool.is_for_models]
        shown = {tool.id for tool in pinned}
        chosen = catalogue.tools_by_id(sorted(set(context.session.chosen) - shown))
        return [*pinned, *(tool.spec for tool in chosen.values())]

    async def _search(self, arguments: _Raw, context: RequestContext) -> _Raw:
        await self._wait_for_new_servers(context)
        used = arguments.get("context_tools")
        history = context.session.history
        before = history.telling_context if used is None else self._ids(used, context)
        both = bool(arguments.get("include_skills"))
        in_detail = arguments.get("detail", self._in_detail)
        request = read_search(arguments, context, SEARCH_TOOLS)
        request = replace(request, context=before, by_relatedness=in_detail, skills=both)
        found = await self._app.search(request, history)
        if not in_detail:
            names = {name: name for name in found.tools}
            return wire.text(search_lines.of_tools(request.text, found, names))
        return self._json(wire.tools_found(arguments["query"], found, mark=both))

    async def _find(self, arguments: _Raw, context: RequestContext) -> _Raw:
        await self._wait_for_new_servers(context)
        history = context.session.history
        in_detail = arguments.get("detail", self._in_detail)
        request = read_search(arguments, context, TOOL_SEARCH, limit="max_tools")
        found = await self._app.search(replace(request, context=history.telling_context), history)
        names = self._catalogue(context).exposed
        context.session.chosen = tuple(hit.document.id for hit in found.hits)
        if not in_detail:
            return wire.text(search_lines.of_tools(request.text, found, names))
        return self._json(wire.tools_chosen(found, names))

    async def _search_skills(self, arguments: _Raw, context: RequestContext) -> _Raw:
        in_detail = arguments.get("detail", self._in_detail)
        request = read_search(arguments, context, SEARCH_SKILLS)
        result = await self._app.skills(context.grant, by_model=True).search(request)
        if not in_detail:
            return wire.text(search_lines.of_skills(result))
        return self._json(wire.skills_found(arguments["query"], result))

    async def _read_skill(self, arguments: _Raw, context: RequestContext) -> _Raw:
        file = arguments.get("file", "")
        skills = self._app.skills(context.grant, by_model=True)
        return wire.text((await skills.read(arguments["skill"], file)).text)

    async def _read_more(self, arguments: _Raw, context: RequestContext) -> _Raw:
        return await self.calls.results.read(context.owner, arguments["handle"], arguments)

    async def _describe(self, arguments: _Raw, context: RequestContext) -> _Raw:
        names: list[str] = arguments["tools"]
        tools: list[ToolSpec] = []
        missing: list[UnknownNameError] = []
        for name in names:
            try:
                tools.append(await self._catalogue(context).tool_when_ready(name))
            except UnknownNameError as error:
                missing.append(error)
        if missing and not tools:
            raise missing[0]
        known = self._catalogue(context).tools_by_id(tool.id for tool in tools)
        readable = [each for each in known.values() if each.spec.is_for_models]
        limit = 0 if self._in_detail else wire.MAX_DESCRIBED_CHARS
        problems = {"missing": [*map(str, missing)]} if missing else {}
        return self._json({**wire.described(readable, limit), **problems})

    def _json(self, value: _Raw) -> _Raw:
        """Returns a result in JSON: once, unless the wire is the seed's. A model reads both."""
        return wire.answer(value, structured=self._in_detail)

    async def _call(self, tool_class: ToolClass, arguments: _Raw, context: RequestContext) -> _Raw:
        """Calls a tool of a class, or one that may do less.

        Raises `ToolClassError`, which names what calls the tool.
        """
        name, given = arguments["tool"], arguments.get("arguments", {})
        if name in OFFERED[self.exposure]:
            raise UnknownNameError(_use_itself(name, name))
        if arguments.keys() - {"tool", "arguments"}:
            takes: _Raw = {}
            with suppress(InputError):  # which the call itself tells
                takes = (await self._catalogue(context).tool_when_ready(name)).input_schema
            check_places(takes, arguments)
        classes = TOOL_CLASSES[: TOOL_CLASSES.index(tool_class) + 1]
        try:
            return await self.calls.call_tool(name, given, context, classes, is_listed=False)
        except ToolClassError as error:
            right = CALLS[cast("ToolClass", error.tool_class)]
            raise ToolClassError(f"{error}; call it with {right}", error.tool_class) from None

    async def _run_script(self, arguments: _Raw, context: RequestContext) -> _Raw:
        await self._wait_for_new_servers(context)
        return await self.calls.run_script(arguments["script"], context)

    async def _wait_for_new_servers(self, context: RequestContext) -> None:
        """Wait a little for servers whose tools are not known yet.

        A model that does not find a tool believes that there is none, and may not try
        again when told to. The tools of servers in the snapshot are known at once.
        """
        unknown = any(s.state == "connecting" for s in self._catalogue(context).not_searched())
        if unknown or not self._app.searchable:
            with anyio.move_on_after(PATIENCE_S):
                await self._app.ready()

    def _ids(self, names: list[str], context: RequestContext) -> tuple[str, ...]:
        """Returns the ids of those tools that still exist."""
        ids: list[str] = []
        for name in names:
            with suppress(InputError):
                ids.append(self._catalogue(context).tool(name).id)
        return tuple(ids)


def _use_itself(name: str, own: str) -> str:
    """Returns a message about a name that stands for a meta tool, but does not call it."""
    return f"no server's tool is called {printable(name, 100)!r}; call toolscript's {own} directly"
