"""Calls servers' tools, runs the scripts that call them, and fits the results for models."""

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import msgspec

from toolscript.app.application import App
from toolscript.app.argument_checks import check_arguments
from toolscript.app.base import ScriptDoor
from toolscript.errors import InputError, UpstreamError
from toolscript.gateway.raw_results import (
    RawResult,
    UnreadableError,
    decode_moderate,
    in_thread_if_large,
)
from toolscript.retrieval.profiles import SEARCH_TOOLS
from toolscript.surfaces.mcp import script_caller
from toolscript.surfaces.mcp.meta_tools import SCHEMAS
from toolscript.surfaces.mcp.request_context import Exposure, RequestContext, read_search
from toolscript.surfaces.mcp.result_truncation import shorten
from toolscript.surfaces.mcp.script_caller import ScriptCaller
from toolscript.surfaces.mcp.stored_results import ONE_AT_A_TIME, StoredResults
from toolscript.surfaces.server.audit_log import audited
from toolscript.text.wire_constants import RUN, SEARCH
from toolscript.types import TOOL_CLASSES, ToolClass, ToolSpec

_Raw: TypeAlias = dict[str, Any]


class ToolCalls:
    """Calls tools for one exposure. Keeps nothing between requests.

    Args:
        app: Calls the tools.
        exposure: Which tools are listed.
        in_detail: Whether results are as their servers sent them: as seed D has it.
    """

    def __init__(self, app: App, exposure: Exposure, *, in_detail: bool = False) -> None:
        self._app = app
        self.exposure: Exposure = exposure
        self.results = StoredResults(app)
        self.in_detail = in_detail

    async def call_tool(  # noqa: PLR0913 - the parts of a call
        self,
        name: str,
        arguments: _Raw,
        context: RequestContext,
        classes: tuple[ToolClass, ...] = TOOL_CLASSES,
        *,
        is_listed: bool = True,
        is_whole: bool = False,
    ) -> _Raw:
        """Returns the result of a call: for a model, or ``is_whole`` as its server sent it."""
        call = self._app.call(
            name,
            arguments,
            context.caller,
            context.grant,
            history=context.session.history,
            session=context.session.id,
            classes=classes,
            checked=self.exposure != "all" or is_whole,
            by_model=self.exposure != "all" or not is_listed,
            **context.more,
        )
        answer = call if is_whole else self._answer_call(name, call, context, is_listed=is_listed)
        return await audited(self._app, name, arguments, context.grant, answer)

    async def run_script(self, script: str, context: RequestContext) -> _Raw:
        """Returns the result of a script, whose calls are the caller's own, as a model gets it."""
        own = replace(context, caller=ScriptCaller(context.caller), more={})
        door = ScriptDoor(
            own.grant.holder,
            partial(self._call_for_script, own),
            partial(self._search_for_script, own),
            partial(self.results.read_value, own.owner),
        )
        outcome = await self._app.scripts.run(script, self._app.catalogue(own.grant), door)
        result = script_caller.script_result(outcome)
        return await self._fit(RUN, result, context, is_listed=False)

    async def _call_for_script(
        self, context: RequestContext, tool: str, arguments: _Raw
    ) -> tuple[str, bool]:
        result = await self.call_tool(tool, arguments, context, is_listed=False, is_whole=True)
        return await script_caller.read_value(tool, result)

    async def _search_for_script(self, context: RequestContext, query: str, limit: int) -> str:
        arguments = {"query": query, "limit": limit}
        given = check_arguments(SEARCH, SCHEMAS[False][SEARCH], arguments, ours=True)
        request = read_search(dict(given), context, SEARCH_TOOLS)
        return script_caller.write_found(await self._app.search(request, context.session.history))

    async def _answer_call(
        self, name: str, call: Awaitable[_Raw], context: RequestContext, *, is_listed: bool
    ) -> _Raw:
        """Returns a call's result as a model gets it."""
        return await self._fit(name, await call, context, is_listed=is_listed)

    async def _fit(
        self, name: str, result: _Raw, context: RequestContext, *, is_listed: bool
    ) -> _Raw:
        """Returns a tool's result, shortened if it is too long for a model.

        Args:
            name: The tool's id or name.
            result: The server's result.
            context: The request of the caller, for whom a long result is kept.
            is_listed: Whether the client knows the tool's output schema.
        """
        catalogue = self._app.catalogue(context.grant)
        if self.in_detail or catalogue.builtin_tool(name):
            return await _decode(name, result)
        if result.get("resultType") == "input_required":
            return result
        tool = ToolSpec(server="", name=name)
        with suppress(InputError):  # it may have been withdrawn since
            tool = catalogue.tool(name)

        keep = partial(self.results.add, context.owner, tool.id)

        def fit(text: bytes) -> _Raw:
            is_typed = is_listed and tool.output_schema is not None
            return shorten(text, catalogue.result_limit(tool), keep, tool, is_typed=is_typed)

        text = result.text if isinstance(result, RawResult) else msgspec.json.encode(result)
        return await in_thread_if_large(fit, text, ONE_AT_A_TIME)


async def _decode(name: str, result: _Raw) -> _Raw:
    if not isinstance(result, RawResult):
        return result
    try:
        return await in_thread_if_large(decode_moderate, result.text)
    except UnreadableError as error:
        raise UpstreamError(f"{name}: {error}") from None
