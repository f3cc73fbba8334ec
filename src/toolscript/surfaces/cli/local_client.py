"""The client of an application in this process, which answers as if over HTTP.

The model is loaded while the modules of the application are imported: each takes a third of a
second.
"""

import logging
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import anyio

from toolscript.config.settings import Settings
from toolscript.embedding.loader import Choice, lazy
from toolscript.surfaces.cli.gateway_client import Parameters, answer, target
from toolscript.surfaces.server.config_sources import load
from toolscript.types import owned

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from starlette.types import ASGIApp, Message, Scope

    from toolscript.app.application import App
    from toolscript.surfaces.server.authentication import Access


class LocalClient:
    """A client of the application, whose event loop runs in another thread."""

    def __init__(
        self, portal: "BlockingPortal", app: "App", asgi: "ASGIApp", access: "tuple[str, Access]"
    ) -> None:
        self._portal = portal
        self._app = app
        self._asgi = asgi
        self._access = access

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """See `Client.get`."""
        return self._request("GET", target(path, parameters), b"")

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """See `Client.post`."""
        return self._request("POST", path, body)

    def _request(self, method: str, url: str, body: bytes) -> dict[str, Any]:
        return answer(
            *self._portal.call(lambda: self._app.tasks.while_healthy(self._call(method, url, body)))
        )

    def wait(self, timeout_s: float) -> None:
        """See `Client.wait`."""
        self._portal.call(self._wait, timeout_s)

    async def _wait(self, timeout_s: float) -> None:
        with anyio.move_on_after(timeout_s):
            await self._app.ready()

    async def _call(self, method: str, url: str, body: bytes) -> tuple[int, bytes]:
        """Make one ASGI request. By hand: an HTTP client would double the command's time."""
        path, _, query = url.partition("?")
        key, access = self._access
        scope: Scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "query_string": query.encode(),
            "headers": [(b"content-type", b"application/json")],
            key: access,
        }
        sent: list[Message] = []
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> "Message":
            if not unread:
                await anyio.sleep_forever()
            return unread.pop()

        async def send(message: "Message") -> None:
            sent.append(message)

        await self._asgi(scope, receive, send)
        status = next(m["status"] for m in sent if m["type"] == "http.response.start")
        return status, b"".join(m.get("body", b"") for m in sent)


@contextmanager
def local_client(
    settings: Settings, wiring: Mapping[str, Any], *, refresh: bool
) -> Generator[LocalClient]:
    """A client of an application that runs for as long as the block lasts. See `connected`."""
    # The answer itself says that it is degraded, and why.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        # Nobody can answer this process.
        settings = replace(settings, calls=replace(settings.calls, approval_timeout_s=0))
    logging.getLogger("toolscript.embedding.loader").setLevel(logging.ERROR)
    model = lazy(Choice(directory=settings.paths.data_dir / "models", **asdict(settings.embedding)))
    if wiring.get("embed", True):
        model.begin()
    from anyio.from_thread import start_blocking_portal  # noqa: PLC0415 - while the model is loaded

    from toolscript import bootstrap  # noqa: PLC0415 - the same
    from toolscript.config.permission_rules import check_profile  # noqa: PLC0415 - the same
    from toolscript.surfaces.http.routes import local_app  # noqa: PLC0415 - the same
    from toolscript.surfaces.server.authentication import (  # noqa: PLC0415 - the same
        ACCESS,
        OWNER,
        Access,
    )

    chosen: dict[str, Any] = {"start": "all" if refresh else "needed", "skills": "off", **wiring}
    wired = bootstrap.Wiring(use_snapshot=not refresh, model=model, **chosen)
    config, profile = load(settings.paths), settings.client.profile
    if profile:
        check_profile(profile, config.profiles)
    app = bootstrap.application(settings, config, wired)
    asgi = local_app(app)
    with start_blocking_portal() as portal, ExitStack() as stack:
        running = portal.wrap_async_context_manager(app.running())
        running.__enter__()
        # Errors of this thread, such as an interruption by the user, stay in it: in the
        # event loop they would end it before the connections are closed.
        stack.callback(running.__exit__, None, None, None)
        yield LocalClient(portal, app, asgi, (ACCESS, Access(owned(profile), OWNER)))
