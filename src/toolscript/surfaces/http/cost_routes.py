"""What tools cost a model: listing them all, finding them by search, and reading their results."""

from collections import defaultdict
from typing import Any

import anyio.to_thread
import msgspec
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.errors import ToolscriptError
from toolscript.storage.activity_log import MAX_ROWS, ActivityQuery
from toolscript.surfaces.http.activity_routes import recorded
from toolscript.surfaces.http.answers import CostAnswer, ResultCost
from toolscript.surfaces.http.openapi import Endpoints
from toolscript.surfaces.mcp.endpoint import ToolEndpoint
from toolscript.surfaces.mcp.request_context import Exposure, RequestContext
from toolscript.surfaces.mcp.tool_calls import ToolCalls
from toolscript.surfaces.server.authentication import access_of, grant_of
from toolscript.text.display import printable
from toolscript.text.token_estimate import estimated_tokens
from toolscript.text.wire_constants import SEARCH

ENDPOINTS = Endpoints()
_QUESTIONS = 5
_QUESTION_CHARS = 80
_RESULTS = 50


@ENDPOINTS.add("GET", "/cost", CostAnswer)
async def cost(app: App, request: Request) -> Any:
    """What tools cost a model in tokens, listed and by search."""
    context = RequestContext(grant=grant_of(request))
    asked = await _questions(app, request)
    answers = [await _answer_tokens(app, question, context) for question in asked]
    search = round(sum(answers) / len(answers)) if answers else 0
    whole = await anyio.to_thread.run_sync(_list_tokens, app, "all", context)
    ours = await anyio.to_thread.run_sync(_list_tokens, app, "search", context)
    return CostAnswer(
        tools=len(app.catalogue(context.grant).tools()),
        list_all=whole,
        list_search=ours,
        search=search,
        asked=asked,
        break_even=max(0, whole - ours) // search if search else None,
        results=await _results(app, request),
    )


def _list_tokens(app: App, exposure: Exposure, context: RequestContext) -> int:
    entries = ToolEndpoint(app, ToolCalls(app, exposure)).tools(context)
    return sum(estimated_tokens(msgspec.json.encode(entry)) for entry in entries)


async def _questions(app: App, request: Request) -> list[str]:
    """Returns what the search is asked: kept questions, or else how some tools begin."""
    grant = grant_of(request)
    if grant.is_owner:
        kept = await anyio.to_thread.run_sync(app.questions.all)
        if kept:
            return [each.query for each in kept[:_QUESTIONS]]
    tools = app.catalogue(grant).tools()
    some = tools[:: max(1, len(tools) // _QUESTIONS)][:_QUESTIONS]
    return [printable(t.description.split(".")[0] or t.name, _QUESTION_CHARS) for t in some]


async def _answer_tokens(app: App, question: str, context: RequestContext) -> int:
    params = {"name": SEARCH, "arguments": {"query": question}}
    try:
        result = await ToolEndpoint(app, ToolCalls(app, "search")).call_tool(params, context)
    except ToolscriptError:
        return 0
    return sum(estimated_tokens(block["text"].encode()) for block in result["content"])


async def _results(app: App, request: Request) -> list[ResultCost]:
    page = await recorded(app, access_of(request), ActivityQuery(MAX_ROWS))
    tokens: defaultdict[str, list[int]] = defaultdict(list)
    for call in page.calls:
        if call.result_tokens is not None:
            tokens[call.tool].append(call.result_tokens)
    rows = [
        ResultCost(tool=tool, calls=len(each), tokens=sum(each), largest=max(each))
        for tool, each in tokens.items()
    ]
    return sorted(rows, key=lambda row: (-row.tokens, row.tool))[:_RESULTS]
