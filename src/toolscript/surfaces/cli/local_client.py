"""The application in this process, asked as if over HTTP."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import unquote

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Message, Scope

from toolscript import bootstrap
from toolscript.app.application import App
from toolscript.config.settings import Settings
from toolscript.skills.scanner import SkillMode
from toolscript.surfaces.cli.client import Parameters, answer, target
from toolscript.surfaces.cli.progress_bar import wait_until_ready
from toolscript.surfaces.http.routes import http_app
from toolscript.surfaces.server.config_sources import load


class LocalClient:
    """An ASGI application on an event loop in a thread of its own."""

    def __init__(self, portal: BlockingPortal, app: App) -> None:
        self._portal = portal
        self._asgi: ASGIApp = http_app(app, runs_app=False)
        self._monitor = app.task_monitor
        self.snapshot = False

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """See `Client.get`."""
        return self._asked("GET", target(path, parameters), b"")

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """See `Client.post`."""
        return self._asked("POST", path, body)

    def _asked(self, method: str, where: str, body: bytes) -> dict[str, Any]:
        request = partial(_request, self._asgi, method, where, body)
        return answer(*self._portal.call(lambda: self._monitor.outlive(request())))


@contextmanager
def local_client(  # noqa: PLR0913 - what a command may want different, each by its name
    settings: Settings,
    *,
    refresh: bool,
    only: str | None = None,
    embed: bool = True,
    live: bool = False,
    skills: SkillMode = "off",
) -> Generator[LocalClient]:
    """The application, ready to be asked; what the snapshot lacks is connected to, visibly.

    With ``only``, that server is connected to, known or not, and no other; with
    ``live`` every one is. ``skills`` says what becomes of the folders of skills.
    """
    # The answer itself says that it is degraded, and why.
    logging.getLogger("toolscript.embedding.loader").setLevel(logging.ERROR)
    wiring = bootstrap.Wiring(
        reconnect=refresh or live,
        only=only,
        use_snapshot=not refresh,
        embed=embed,
        skills=skills,
    )
    app = bootstrap.application(settings, load(settings), wiring)
    with start_blocking_portal() as portal, _running(portal, app):
        client = LocalClient(portal, app)
        wait_until_ready(client, settings.connect_timeout_s)
        client.snapshot = any(server["snapshot"] for server in client.get("/servers")["servers"])
        yield client


@contextmanager
def _running(portal: BlockingPortal, app: App) -> Generator[None]:
    """The application under way. What is raised meanwhile stays in this thread.

    An interruption by the user, thrown into the event loop, would end it
    before the connections are closed.
    """
    running = portal.wrap_async_context_manager(app.running())
    running.__enter__()
    try:
        yield
    finally:
        running.__exit__(None, None, None)


async def _request(asgi: ASGIApp, method: str, where: str, sent: bytes) -> tuple[int, bytes]:
    """One request, without a socket. By hand: an HTTP client would double the command's time."""
    path, _, query = where.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": None,
        "server": ("localhost", 80),
    }
    messages: list[Message] = []
    waiting: list[Message] = [{"type": "http.request", "body": sent, "more_body": False}]

    async def receive() -> Message:
        if not waiting:
            await anyio.sleep_forever()
        return waiting.pop()

    async def send(message: Message) -> None:
        messages.append(message)

    await asgi(scope, receive, send)
    status = next(m["status"] for m in messages if m["type"] == "http.response.start")
    return status, b"".join(m.get("body", b"") for m in messages)
