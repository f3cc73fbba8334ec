"""The activity: which tools were called, by whom, and what came of it, as it happens."""

from typing import Any

from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import Option
from toolscript.storage.activity_log import OUTCOMES, ActivityQuery, RecordedCall
from toolscript.surfaces.http.activity_routes import recorded
from toolscript.surfaces.server.authentication import access_of
from toolscript.surfaces.web.screens import Screens, given

SCREENS = Screens()
_PAGE = 50
_BEFORE = Option("before", int, None, "", bounds=(1, 2**63 - 1))
_OUTCOME = Option("outcome", str, None, "", choices=OUTCOMES)


class ActivityScreen(Struct, frozen=True, kw_only=True):
    """Calls, the newest first."""

    calls: list[RecordedCall]
    next: int | None
    """What ``before`` is for older calls; None where there are none."""
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
        next=page.calls[-1].id if page.has_more else None,
        tool=tool or "",
        who=who or "",
        outcome=outcome or "",
    )
