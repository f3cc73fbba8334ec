"""Shows what waits for the owner's approval: changed definitions, and calls on hold."""

from typing import Any, cast

import anyio.to_thread
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.call_approvals import ANSWERS, PendingApproval, PersonsAnswer
from toolscript.errors import InputError
from toolscript.surfaces.http.approval_messages import ReviewAnswer
from toolscript.surfaces.http.approval_routes import reviewed
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.web.screens import Screens, check_owner, field, form_of, redirect

SCREENS = Screens()


class ReviewScreen(Struct, frozen=True, kw_only=True):
    """The held definitions, and the calls that wait."""

    review: ReviewAnswer
    pending: list[PendingApproval]


@SCREENS.add("GET", "/review", "review.html")
async def review(app: App, request: Request) -> Any:
    """What waits for the owner."""
    check_owner(request)
    catalogue = app.catalogue(grant_of(request))
    held = await anyio.to_thread.run_sync(reviewed, catalogue)
    return ReviewScreen(review=held, pending=app.approvals.pending)


@SCREENS.add("POST", "/review")
async def decide(app: App, request: Request) -> Any:
    """Approve or reject a held definition, or all of a server; or answer a call."""
    check_owner(request)
    form = await form_of(request)
    approved, rejected = field(form, "approve"), field(form, "reject")
    server, call = field(form, "server"), field(form, "call")
    if server:
        held = app.catalogue(grant_of(request)).held()
        await app.review([e.tool.id for e in held if e.tool.server == server], approve=True)
    elif approved or rejected:
        await app.review([approved or rejected], approve=bool(approved))
    elif call and field(form, "answer") in ANSWERS:
        app.approvals.answer(call, cast("PersonsAnswer", field(form, "answer")))
    else:
        raise InputError("the form has nothing to decide")
    return redirect("/review")
