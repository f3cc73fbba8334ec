"""The MCP door at its HTTP addresses.

``/mcp`` has the exposure of the settings, ``/mcp/search``, ``/mcp/two-phase``
and ``/mcp/all`` their own. The SDK is imported in a thread once skills can be
searched, or somebody asks: that takes most of a second, in which Python does
little else.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from toolscript.app import App, first_of
from toolscript.gateway import arguments
from toolscript.gateway.base import IMPORTING
from toolscript.surfaces.mcp.door import EXPOSURES, Exposure
from toolscript.types import Grant

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
PATIENCE_S = 5.0
"""So long the import waits for many skills."""
_VERSION_HEADER = b"mcp-protocol-version"
_UNSUPPORTED = -32022


class Mount:
    """One session manager for each exposure. Serves while `running` runs; earlier requests wait."""

    def __init__(
        self, app: App, exposure: Exposure, grant_of: Callable[[HTTPConnection], Grant]
    ) -> None:
        self._app = app
        self._grant_of = grant_of
        self.exposure: Exposure = exposure
        self._managers: dict[Exposure, StreamableHTTPSessionManager] = {}
        self._older: frozenset[str] = frozenset()
        self._asked = anyio.Event()
        self._ready = anyio.Event()

    @property
    def routes(self) -> list[Route]:
        """The addresses, each answered by its exposure."""
        own = [Route(f"{PATH}/{name}", _Endpoint(self, name)) for name in EXPOSURES]
        return [Route(PATH, _Endpoint(self, self.exposure)), *own]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve for as long as the block lasts; then end every session."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._app.supervisor.run, "mcp", self._serve)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def answer(self, exposure: Exposure, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        self._asked.set()
        await self._ready.wait()
        if exposure == "two-phase" and (newer := self._newer(scope)):
            await self._refusal(newer)(scope, receive, send)
            return
        await self._managers[exposure].handle_request(scope, receive, send)

    async def _serve(self) -> None:
        await self._let_skills_pass()
        await anyio.to_thread.run_sync(self._import)
        from toolscript.surfaces.mcp.server import DoorServer  # noqa: PLC0415 - imported by now

        servers: dict[Exposure, DoorServer] = {
            name: DoorServer(self._app, name, self._grant_of) for name in EXPOSURES
        }
        async with AsyncExitStack() as stack:
            for name, server in servers.items():
                self._managers[name] = _manager(server)
                await stack.enter_async_context(self._managers[name].run())
            tasks = await stack.enter_async_context(anyio.create_task_group())
            for server in servers.values():
                tasks.start_soon(server.run_beside)
            self._ready.set()

    async def _let_skills_pass(self) -> None:
        with anyio.move_on_after(PATIENCE_S):
            await first_of(self._asked.wait, self._app.handbook.settled)

    def _import(self) -> None:
        with IMPORTING:
            import_module("toolscript.surfaces.mcp.server")
            arguments.prepare()
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415 - see the module

        self._older = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)

    def _newer(self, scope: Scope) -> str:
        """The version that a request is of, where that has no sessions."""
        stated = dict(scope["headers"]).get(_VERSION_HEADER, b"").decode("latin-1")
        return "" if stated in self._older else stated

    def _refusal(self, version: str) -> Response:
        """As the protocol has it: the client goes on with a version that has sessions."""
        data = {"supported": sorted(self._older), "requested": version}
        problem = {"code": _UNSUPPORTED, "message": "two phases need a session", "data": data}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": problem})
        return Response(body, 400, media_type="application/json")


class _Endpoint:
    """An ASGI application: a plain function would be taken for one that returns its answer."""

    def __init__(self, mount: Mount, exposure: Exposure) -> None:
        self._mount = mount
        self._exposure: Exposure = exposure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        await self._mount.answer(self._exposure, scope, receive, send)


def _manager(server: object) -> "StreamableHTTPSessionManager":
    from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - see the module
        StreamableHTTPSessionManager,
    )

    # No guard of its own: ours stands before every route.
    return StreamableHTTPSessionManager(app=server)  # pyright: ignore[reportArgumentType] - a Server
