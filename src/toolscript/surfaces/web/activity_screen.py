"""The activity: calls of tools with caller and outcome, as they happen."""

from typing import Any

import anyio.to_thread
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.access_tokens import TokenStore
from toolscript.config.settings import Option
from toolscript.storage.activity_log import OUTCOMES, ActivityQuery, RecordedCall
from toolscript.surfaces.http.activity_routes import recorded
from toolscript.surfaces.server.authentication import access_of, grant_of
from toolscript.surfaces.web.screens import Screens, given

SCREENS = Screens()
_PAGE = 50
_BEFORE = Option("before", int, None, "", bounds=(1, 2**63 - 1))
_OUTCOME = Option("outcome", str, None, "", choices=OUTCOMES)


class ActivityScreen(Struct, frozen=True, kw_only=True):
    """Calls, the newest first."""

    calls: list[RecordedCall]
    names: dict[str, str]
    """The names that the owner has given to callers' tokens, by id."""
    next: int | None
    """The parameter ``before`` of older calls; None if there are none."""
    tool: str
    who: str
    outcome: str
    outcomes: tuple[str, ...] = OUTCOMES


@SCREENS.add("GET", "/activity", "activity.html")
async def activity(app: App, request: Request) -> Any:
    """The newest calls."""
    tool, who, outcome, before = (given(request, n) for n in ("tool", "who", "outcome", "before"))
    query = ActivityQuery(
        limit=_PAGE,
        before=_BEFORE.parse(before, "before") if before else None,
        tool=tool,
        who=who,
        outcome=_OUTCOME.parse(outcome, "outcome") if outcome else None,
    )
    page = await recorded(app, access_of(request), query)
    return ActivityScreen(
        calls=page.calls,
        names=await _names(request),
        next=page.calls[-1].id if page.has_more else None,
        tool=tool or "",
        who=who or "",
        outcome=outcome or "",
    )


async def _names(request: Request) -> dict[str, str]:
    """Returns the names of all tokens for the owner, and none for others."""
    if not grant_of(request).is_owner:
        return {}
    tokens: TokenStore = request.app.state.tokens
    known = await anyio.to_thread.run_sync(tokens.all)
    return {token.id: token.name for token in known if token.name}
