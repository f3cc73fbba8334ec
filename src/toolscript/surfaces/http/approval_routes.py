"""The routes by which the owner decides: about changed tools, and about calls that wait."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import anyio.to_thread
import msgspec
from msgspec import UNSET
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.app.scoped_catalogue import ScopedCatalogue
from toolscript.config.settings import Option
from toolscript.errors import InputError
from toolscript.gateway.definitions.comparison import HeldTool
from toolscript.gateway.definitions.normal_form import normal_form
from toolscript.gateway.definitions.word_diff import changes
from toolscript.surfaces.http.approval_messages import (
    CallDecision,
    HeldAnswer,
    PendingAnswer,
    PendingCalls,
    PermissionsAnswer,
    ReviewAnswer,
    ReviewDecision,
    ReviewDone,
    Revocation,
    RevokedAnswer,
    RuleAnswer,
)
from toolscript.surfaces.http.openapi import REQUIRED, Endpoints
from toolscript.surfaces.http.request_input import json_struct
from toolscript.surfaces.server.authentication import grant_of
from toolscript.types import PermissionRule

ENDPOINTS = Endpoints()
_DECIDE = "decide about tools and calls"
_CALL = Option("id", str, REQUIRED, "The waiting call's id.")


@ENDPOINTS.add("GET", "/review", ReviewAnswer, owners=_DECIDE)
async def review(app: App, request: Request) -> Any:
    """The tools whose definitions wait for approval, with what has changed."""
    return await anyio.to_thread.run_sync(reviewed, app.catalogue(grant_of(request)))


def reviewed(catalogue: ScopedCatalogue) -> ReviewAnswer:
    """Returns the tools that wait for approval, each compared with what was accepted. Blocks."""
    held = catalogue.held()
    answers = [*map(_answer_held, held)]
    return ReviewAnswer(held=answers, total_held=len(held), changed=catalogue.changed())


@ENDPOINTS.add("POST", "/review", ReviewDone, body=ReviewDecision, owners=_DECIDE)
async def decide_review(app: App, request: Request) -> Any:
    """Approve or reject: `{"approve": ["id", …]}`, `{"reject": […]}`, `{"approveServer": "…"}`."""
    given = await json_struct(request, ReviewDecision)
    approved, skipped = list(given.approve), []
    if given.approve_server is not UNSET:
        catalogue = app.catalogue(grant_of(request))
        catalogue.check((given.approve_server,))
        of_server = [h for h in catalogue.held() if h.tool.server == given.approve_server]
        approved += [held.tool.id for held in of_server if not held.rejected]
        skipped = [h.tool.id for h in of_server if h.rejected and h.tool.id not in approved]
    elif not approved and not given.reject:
        raise InputError("the body decides nothing; expected approve, reject or approveServer")
    seen = None if given.seen is UNSET else given.seen
    await app.review(approved, given.reject, seen=seen)
    rejected = _each_once(given.reject)
    return ReviewDone(approved=_each_once(approved), rejected=rejected, skipped=skipped)


@ENDPOINTS.add("GET", "/pending", PendingCalls, owners=_DECIDE)
async def pending(app: App, _: Request) -> Any:
    """The calls that wait until somebody allows them."""
    return PendingCalls(pending=app.approvals.pending)


@ENDPOINTS.add("POST", "/pending/{id}", PendingAnswer, _CALL, body=CallDecision, owners=_DECIDE)
async def answer_pending(app: App, request: Request) -> Any:
    """Answer a call that waits: `{"answer": "once"}`; or session, server, always, no."""
    given = (await json_struct(request, CallDecision)).answer
    call = app.approvals.answer(request.path_params["id"], given)
    return PendingAnswer(call=call, answer=given)


@ENDPOINTS.add("GET", "/permissions", PermissionsAnswer, owners=_DECIDE)
async def permissions(app: App, request: Request) -> Any:
    """The rules about calls, and what was allowed for always."""
    files, profiles = app.permissions.written
    remembered = await anyio.to_thread.run_sync(app.approvals.remembered.all)
    tools = {tool.id: tool for tool in app.catalogue(grant_of(request)).tools()}
    return PermissionsAnswer(
        rules=_rules(chain.from_iterable(files)),
        profiles={name: _rules(each.rules) for name, each in profiles.items()},
        selections={
            name: [*profile.selection.servers, *profile.selection.tools]
            for name, profile in profiles.items()
            if profile.selection is not None
        },
        remembered=list(remembered),
        outdated=[
            answer.id
            for answer in remembered
            if answer.tool_id in tools and not answer.allows(tools[answer.tool_id], answer.holder)
        ],
    )


@ENDPOINTS.add("POST", "/permissions/revoke", RevokedAnswer, body=Revocation, owners=_DECIDE)
async def revoke_permission(app: App, request: Request) -> Any:
    """Take back an answer for always: `{"id": "…"}`."""
    identifier = (await json_struct(request, Revocation)).id
    revoke = app.approvals.remembered.revoke
    return RevokedAnswer(revoked=await anyio.to_thread.run_sync(revoke, identifier))


def _rules(rules: Iterable[PermissionRule]) -> list[RuleAnswer]:
    return msgspec.convert([*rules], list[RuleAnswer], from_attributes=True)


def _each_once(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _answer_held(held: HeldTool) -> HeldAnswer:
    return HeldAnswer(
        tool_id=held.tool.id,
        server_name=held.tool.server,
        own_name=held.tool.own.name if held.tool.own else UNSET,
        digest=held.digest,
        reason=held.reason,
        why=held.why,
        rejected=held.rejected,
        launch_before=held.launch_before,
        launch=held.launch,
        changes=list(changes(held.before, normal_form(held.tool))),
    )
