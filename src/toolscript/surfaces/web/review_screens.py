"""Shows what waits for the owner's approval: changed definitions, and calls on hold."""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

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
from toolscript.text.wire_constants import ANSWERS
from toolscript.types import sha256_of

SCREENS = Screens()
Form: TypeAlias = dict[str, list[str]]
"""The fields of a form, each with its values."""


class ReviewScreen(Struct, frozen=True, kw_only=True):
    """The held definitions, and the calls that wait."""

    review: ReviewAnswer
    pending: list[PendingApproval]
    servers: dict[str, str]
    """The digest of each server's undecided definitions, by the server's name."""


@SCREENS.add("GET", "/review", "review.html")
async def review(app: App, request: Request) -> Any:
    """What waits for the owner."""
    check_owner(request)
    catalogue = app.catalogue(grant_of(request))
    held = await anyio.to_thread.run_sync(reviewed, catalogue)
    digests: defaultdict[str, list[str]] = defaultdict(list)
    for tool in held.held:
        if not tool.rejected:
            digests[tool.server_name].append(tool.digest)
    servers = {name: _digest_of_all(of_server) for name, of_server in digests.items()}
    return ReviewScreen(review=held, pending=app.approvals.pending, servers=servers)


@SCREENS.add("POST", "/review")
async def decide(app: App, request: Request) -> Any:
    """Takes one of the forms of the screen, each of which has a field of its own name."""
    check_owner(request)
    form = await form_of(request)
    for name, take in _FORMS.items():
        if value := field(form, name):
            await take(app, value, form)
            return redirect("/review")
    raise InputError("the form has nothing to decide")


async def _approve_all(app: App, server: str, form: Form) -> None:
    """Approves a server's definitions that are not decided, if they are those that were shown."""
    every = app.catalogue().held()
    held = [held for held in every if held.tool.server == server and not held.rejected]
    if _digest_of_all([held.digest for held in held]) != field(form, "all"):
        raise OutdatedDecisionError(
            f"other definitions of {printable(server, 100)} are held than were shown, and "
            "nothing is decided; look at them again"
        )
    await app.review([held.tool.id for held in held])


async def _approve(app: App, tool: str, form: Form) -> None:
    await app.review([tool], seen={tool: field(form, "seen")})


async def _reject(app: App, tool: str, form: Form) -> None:
    await app.review([], [tool], seen={tool: field(form, "seen")})


async def _answer(app: App, call: str, form: Form) -> None:
    answer = field(form, "answer")
    if answer not in ANSWERS:
        raise InputError("the form has nothing to decide")
    app.approvals.answer(call, answer)


_FORMS: dict[str, Callable[[App, str, Form], Awaitable[None]]] = {
    "server": _approve_all,
    "approve": _approve,
    "reject": _reject,
    "call": _answer,
}
"""The handler of each form, by the field that only it has."""


def _digest_of_all(digests: list[str]) -> str:
    """Returns one digest for definitions of a server, given by their digests."""
    return sha256_of(digests)
