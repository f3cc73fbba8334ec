"""Shows what waits for the owner's approval: changed definitions, and calls on hold."""

from collections import defaultdict
from typing import Any, cast

import anyio.to_thread
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.call_approvals import PendingApproval
from toolscript.errors import InputError, OutdatedDecisionError
from toolscript.surfaces.http.approval_messages import ReviewAnswer
from toolscript.surfaces.http.approval_routes import reviewed
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.web.screens import Screens, check_owner, field, form_of, redirect
from toolscript.text.display import printable
from toolscript.text.wire_constants import ANSWERS, PersonsAnswer
from toolscript.types import sha256_of

SCREENS = Screens()


class ReviewScreen(Struct, frozen=True, kw_only=True):
    """The held definitions, and the calls that wait."""

    review: ReviewAnswer
    pending: list[PendingApproval]
    servers: dict[str, str]
    """By the name of a server, what stands for all held definitions of it."""


@SCREENS.add("GET", "/review", "review.html")
async def review(app: App, request: Request) -> Any:
    """What waits for the owner."""
    check_owner(request)
    catalogue = app.catalogue(grant_of(request))
    held = await anyio.to_thread.run_sync(reviewed, catalogue)
    digests: defaultdict[str, list[str]] = defaultdict(list)
    for each in held.held:
        digests[each.server_name].append(each.digest)
    servers = {name: _digest_of_all(each) for name, each in digests.items()}
    return ReviewScreen(review=held, pending=app.approvals.pending, servers=servers)


@SCREENS.add("POST", "/review")
async def decide(app: App, request: Request) -> Any:
    """Approve or reject a held definition, or all of a server; or answer a call."""
    check_owner(request)
    form = await form_of(request)
    approved, rejected = field(form, "approve"), field(form, "reject")
    server, call, seen = (field(form, name) for name in ("server", "call", "seen"))
    if server:
        held = [e for e in app.catalogue(grant_of(request)).held() if e.tool.server == server]
        if _digest_of_all([each.digest for each in held]) != field(form, "all"):
            raise OutdatedDecisionError(
                f"other definitions of {printable(server, 100)} are held than were shown, and "
                "nothing is decided; look at them again"
            )
        await app.review([each.tool.id for each in held])
    elif approved or rejected:
        names = [approved] if approved else [], [] if approved else [rejected]
        await app.review(*names, seen={approved or rejected: seen})
    elif call and field(form, "answer") in ANSWERS:
        app.approvals.answer(call, cast("PersonsAnswer", field(form, "answer")))
    else:
        raise InputError("the form has nothing to decide")
    return redirect("/review")


def _digest_of_all(digests: list[str]) -> str:
    """Returns what stands for all held definitions of a server, given by their digests."""
    return sha256_of(digests)
