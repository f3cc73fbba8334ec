"""Calls servers' tools, runs the scripts that call them, and fits the results for models."""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import msgspec

from toolscript.app.application import App
from toolscript.app.argument_checks import check_arguments, signature
from toolscript.app.base import ScriptDoor, ScriptOutcome
from toolscript.app.searching import Found
from toolscript.errors import InputError, UpstreamError
from toolscript.gateway.base import Caller
from toolscript.gateway.raw_results import (
    RawResult,
    UnreadableError,
    decode_moderate,
    in_thread_if_large,
)
from toolscript.retrieval.profiles import SEARCH_TOOLS
from toolscript.surfaces.mcp.meta_tools import SCHEMAS
from toolscript.surfaces.mcp.request_context import Exposure, RequestContext, read_search
from toolscript.surfaces.mcp.result_truncation import shorten
from toolscript.surfaces.mcp.stored_results import ONE_AT_A_TIME, StoredResults
from toolscript.surfaces.server.audit_log import audited
from toolscript.text.display import printable
from toolscript.text.wire_constants import RUN, SEARCH
from toolscript.types import TOOL_CLASSES, ToolClass, ToolSpec

_MAX_SIGNATURE, _MAX_DESCRIPTION, _MAX_ERROR = 600, 240, 2000
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
        outcome = await self._app.run_script(script, own.grant, door)
        result = _script_result(outcome)
        return await self._fit(RUN, result, context, is_listed=False)

    async def _call_for_script(
        self, context: RequestContext, tool: str, arguments: _Raw
    ) -> tuple[str, bool]:
        result = await self.call_tool(tool, arguments, context, is_listed=False, is_whole=True)
        return await _read_value(tool, result)

    async def _search_for_script(self, context: RequestContext, query: str, limit: int) -> str:
        arguments = {"query": query, "limit": limit}
        given = check_arguments(SEARCH, SCHEMAS[False][SEARCH], arguments, ours=True)
        request = read_search(dict(given), context, SEARCH_TOOLS)
        return _write_found(await self._app.search(request, context.session.history))

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


class ScriptCaller:
    """The caller of a script's calls: it waits for their results, and its user can be asked."""

    accepts_input_required = False

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._steps = 0
        self.session_key, self.session_id = caller.session_key, caller.session_id
        self.project, self.may_be_asked = caller.project, caller.may_be_asked
        self.may_log_in, self.opens_addresses = caller.may_log_in, caller.opens_addresses
        self.elicit = caller.elicit

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See `Caller`. The progress of several calls is counted as one."""
        del progress, total
        self._steps += 1
        await self._caller.on_progress(self._steps, None, message)


class _Block(msgspec.Struct):
    text: str | None = None


class _Result(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw(b"[]")
    structuredContent: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - as on the wire
    isError: bool | None = None  # noqa: N815


async def _read_value(tool: str, result: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns the value of a call, and whether it may be JSON.

    That is its structured content, else its texts, else its blocks. Raises `UpstreamError` if the
    tool says that it has failed.
    """
    text = result.text if isinstance(result, RawResult) else msgspec.json.encode(result)
    value, is_json, failed = await in_thread_if_large(_read, text)
    if failed:
        raise UpstreamError(f"{tool}: {printable(value, _MAX_ERROR) or 'it does not say why'}")
    return value, is_json


def _read(text: bytes) -> tuple[str, bool, bool]:
    try:
        result = msgspec.json.decode(text, type=_Result)
        blocks = msgspec.json.decode(result.content, type=list[_Block])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"its answer cannot be read: {error}", False, True
    said = "\n".join(block.text for block in blocks if block.text is not None)
    if result.isError:
        return said, False, True
    structured = bytes(result.structuredContent)
    if structured != b"null":
        return structured.decode(), True, False
    if any(block.text is None for block in blocks):
        return bytes(result.content).decode(), True, False
    return said, said.lstrip()[:1] in {"{", "["}, False


def _write_found(found: Found) -> str:
    """Returns the tools that a search has found, as JSON."""
    rows: list[dict[str, Any]] = []
    for hit in found.result.hits:
        spec = found.tools[hit.document.id].spec
        rows.append(
            {
                "tool": spec.id,
                "signature": signature(spec.input_schema, _MAX_SIGNATURE),
                "description": printable(spec.description, _MAX_DESCRIPTION),
                "confidence": round(hit.score, 2),
            }
        )
    return msgspec.json.encode(rows).decode()


def _script_result(outcome: ScriptOutcome) -> dict[str, Any]:
    """Returns the outcome of a script as a result of MCP."""
    content = [{"type": "text", "text": text} for text in outcome.texts]
    return {"content": content, **({"isError": True} if outcome.failed else {})}
