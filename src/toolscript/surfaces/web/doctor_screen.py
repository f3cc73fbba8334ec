"""Checks everything that a running gateway can check, and shows the findings."""

from typing import Any

import anyio.to_thread
import msgspec
from msgspec import Struct
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.config.settings import Settings
from toolscript.errors import ToolscriptError
from toolscript.surfaces.http.answers import DatabaseAnswer, server_answer
from toolscript.surfaces.server.authentication import grant_of
from toolscript.surfaces.server.doctor_checks import (
    Finding,
    activity_finding,
    database_findings,
    file_findings,
    search_findings,
    server_finding,
)
from toolscript.surfaces.web.screens import Screens, check_owner
from toolscript.types import SearchRequest

SCREENS = Screens()


class DoctorScreen(Struct, frozen=True, kw_only=True):
    """The outcome of each check."""

    findings: list[Finding]


@SCREENS.add("GET", "/doctor", "doctor.html")
async def doctor(app: App, request: Request) -> Any:
    """Check everything that a running gateway can check."""
    check_owner(request)
    grant = grant_of(request)
    settings: Settings = request.app.state.settings
    findings = await anyio.to_thread.run_sync(lambda: [*file_findings(settings)])
    findings.append(activity_finding({"dropped": app.activity.dropped}))
    if app.database is not None:
        state = msgspec.convert(app.database, DatabaseAnswer, from_attributes=True)
        findings += database_findings(msgspec.to_builtins(state))
    for status in app.catalogue(grant).servers():
        findings.append(server_finding(msgspec.to_builtins(server_answer(status, None))))
    try:
        found = await app.search(SearchRequest(text="is everything well", grant=grant))
        findings += search_findings(app.stats(grant), "; ".join(found.result.degraded))
    except ToolscriptError as problem:
        findings.append(Finding("search", ok=False, found=str(problem)))
    return DoctorScreen(findings=findings)
