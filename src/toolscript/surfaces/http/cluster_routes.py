"""The route at which a gateway takes requests that other replicas of it pass on.

It looks at no token: the body is sealed with the key that the replicas share.
"""

from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from toolscript.app.application import App
from toolscript.errors import ToolscriptError
from toolscript.gateway.base import FORWARDED
from toolscript.surfaces.http.request_input import while_connected
from toolscript.surfaces.server.error_answers import error_response, refusal

if TYPE_CHECKING:
    from toolscript.postgres.forwarding import ForwardedRequests

_FORBIDDEN = 403
_CLIENT_CLOSED = 499


def cluster_routes(app: App, requests: "ForwardedRequests") -> list[Route]:
    """Returns the route, which answers in the owner's place what ``requests`` opens."""

    async def answer(request: Request) -> Response:
        sent = requests.open(await request.body())
        if sent is None:
            return refusal(_FORBIDDEN, "this is no request of another replica for this one")
        try:
            app.tasks.check()
            work = app.request_as_owner(
                sent.server, sent.digest, sent.method, sent.params, requests.caller_of(sent)
            )
            sealed = await while_connected(request, requests.answer(sent, work))
        except ToolscriptError as problem:
            return error_response(problem)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_CLOSED)
        return Response(sealed, media_type="application/octet-stream")

    return [Route(FORWARDED, answer, methods=["POST"])]
