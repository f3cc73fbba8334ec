"""The log of calls: who called which tool, and what came of it."""

import dataclasses
from typing import Any

import anyio.to_thread
from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import Option
from toolscript.errors import RangeError
from toolscript.storage.activity_log import OUTCOMES, ActivityPage, ActivityQuery
from toolscript.surfaces.http.answers import ActivityAnswer, RefusalsAnswer
from toolscript.surfaces.http.openapi import Endpoints
from toolscript.surfaces.http.request_input import parsed
from toolscript.surfaces.server.audit_log import Refusals
from toolscript.surfaces.server.authentication import Access, access_of

ENDPOINTS = Endpoints()
_LIMIT = Option("limit", int, 50, "At most this many calls.", bounds=(1, 1000))
_OLDER = "Only calls older than the one with this id."
_BEFORE = Option("before", int, None, _OLDER, bounds=(1, 2**63 - 1))
_TOOL = Option("tool", str, "", "Only calls of tools whose name matches this pattern.")
_WHO = Option("who", str, "", "Only calls of this caller.")
_OUTCOME = Option("outcome", str, None, "Only calls with this outcome.", choices=OUTCOMES)
_MAX_PATTERN = 200
"""No name in the log is longer."""


@ENDPOINTS.add("GET", "/activity", ActivityAnswer, _LIMIT, _BEFORE, _TOOL, _WHO, _OUTCOME)
async def activity(app: App, request: Request) -> Any:
    """Which tools were called, by whom, and what came of it."""
    access = access_of(request)
    query = ActivityQuery(
        limit=parsed(request, _LIMIT),
        before=parsed(request, _BEFORE),
        tool=parsed(request, _TOOL) or None,
        who=parsed(request, _WHO) or None,
        outcome=parsed(request, _OUTCOME),
    )
    if len(query.tool or "") > _MAX_PATTERN:
        raise RangeError(f"tool has more than {_MAX_PATTERN} characters, as no tool's name has")
    page = await recorded(app, access, query)
    answer = ActivityAnswer(calls=page.calls, next=page.calls[-1].id if page.has_more else None)
    if not access.grant.is_owner:
        return answer
    refusals: Refusals | None = getattr(request.app.state, "refusals", None)
    return replace(
        answer,
        dropped=app.activity.dropped,
        refusals=UNSET
        if refusals is None
        else RefusalsAnswer(
            total=refusals.total,
            last_time=refusals.last_time,
            last_address=refusals.last,
        ),
    )


async def recorded(app: App, access: Access, query: ActivityQuery) -> ActivityPage:
    """Returns the recorded calls that a query asks for; others' calls for the owner only."""
    is_others = not access.grant.is_owner and query.who not in {None, access.holder}
    if is_others:
        return ActivityPage([], has_more=False)
    if not access.grant.is_owner:
        query = dataclasses.replace(query, who=access.holder)
    return await anyio.to_thread.run_sync(app.activity.read, query)
