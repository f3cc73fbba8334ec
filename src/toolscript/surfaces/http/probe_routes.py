"""The routes that a supervisor or a load balancer asks: whether to restart, whether to send work.

They look at no token, and their answers name nothing that a token protects.
"""

from typing import Any

from msgspec import UNSET
from starlette.requests import Request

from toolscript.app.application import App
from toolscript.surfaces.http import answers, openapi
from toolscript.surfaces.server.authentication import LIVE, READY
from toolscript.surfaces.server.error_answers import RETRY_AFTER, refusal
from toolscript.surfaces.server.request_log import CLOSING, RequestStats

ENDPOINTS = openapi.Endpoints()


@ENDPOINTS.add("GET", LIVE, answers.LiveAnswer)
async def live(_: App, __: Request) -> Any:
    """Whether the process answers; looks at nothing else."""
    return answers.LiveAnswer()


@ENDPOINTS.add("GET", READY, answers.ReadyAnswer)
async def ready(app: App, request: Request) -> Any:
    """Whether a search can be answered."""
    stats: RequestStats = request.app.state.stats
    obstacle = CLOSING if stats.closed else app.search_obstacle()
    if obstacle:
        return refusal(503, obstacle, "NotReadyError", RETRY_AFTER)
    database = app.database
    return answers.ReadyAnswer(database=UNSET if database is None else database.answers)
