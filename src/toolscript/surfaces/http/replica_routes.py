"""The route at which a gateway takes requests that other replicas of it pass on.

It looks at no token: the body is sealed with the key that the replicas share.
"""

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from toolscript.app.application import App
from toolscript.errors import ToolscriptError
from toolscript.gateway.base import FORWARDED, Replication
from toolscript.surfaces.http.request_input import while_connected
from toolscript.surfaces.server.error_answers import error_response, refusal

_FORBIDDEN = 403
_CLIENT_CLOSED = 499


def replica_routes(app: App, replication: Replication) -> list[Route]:
    """Returns the route, which answers in the owner's place the requests of other replicas."""

    async def answer(request: Request) -> Response:
        try:
            app.tasks.check()
            work = replication.answer(await request.body())
            sealed = await while_connected(request, work)
        except ToolscriptError as problem:
            return error_response(problem)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)
        if sealed is None:
            return refusal(_FORBIDDEN, "this is no request of another replica for this one")
        return Response(sealed, media_type="application/octet-stream")

    return [Route(FORWARDED, answer, methods=["POST"])]
