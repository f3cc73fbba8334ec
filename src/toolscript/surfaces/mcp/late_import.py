"""Imports the SDK of MCP late, and runs its servers: one for each exposure.

The SDK is imported in a thread once skills can be searched, or the first request comes: that takes
most of a second, in which Python does little else.
"""

from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from toolscript.app import argument_checks
from toolscript.app.application import App
from toolscript.gateway.base import IMPORTING
from toolscript.surfaces.mcp.request_context import EXPOSURES, Exposure
from toolscript.surfaces.mcp.session_ids import SessionIds

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from toolscript.surfaces.mcp.sdk_server import McpServer

PATIENCE_S = 5.0
"""How long the import waits for many skills."""
_WITHOUT_STATE: tuple[Exposure, ...] = ("search", "all")
"""The exposures that show every session of a caller the same."""


class LateServers:
    """The servers of the SDK and their session managers. There are none before `wait` returns.

    Args:
        app: The application that the servers offer.
        ids: Has the key of this gateway, and its name among several.
        is_alone: Whether no other gateway shares its sessions.
        idle_s: How long a session without requests lasts.
    """

    def __init__(self, app: App, ids: SessionIds, *, is_alone: bool, idle_s: float) -> None:
        self._app = app
        self._ids = ids
        self._is_alone = is_alone
        self._idle_s = idle_s
        self.servers: dict[Exposure, McpServer] = {}
        self.managers: dict[Exposure, StreamableHTTPSessionManager] = {}
        """Answer requests with a session, and those that open one."""
        self.stateless: dict[Exposure, StreamableHTTPSessionManager] = {}
        """Answer requests of sessions that do not live here."""
        self.versions: frozenset[str] = frozenset()
        """The protocol's versions that have sessions."""
        self._due = anyio.Event()
        """Set once the SDK is to be imported."""
        self._ready = anyio.Event()

    async def wait(self) -> None:
        """Returns once the servers run; has the SDK imported now."""
        self._due.set()
        await self._ready.wait()

    async def import_after_skills(self) -> None:
        """Has the SDK imported once every skill is indexed."""
        await self._app.skills().settle()
        self._due.set()

    async def run(self) -> None:
        """Imports the SDK when it is due, and runs the servers until cancelled."""
        with anyio.move_on_after(PATIENCE_S):
            await self._due.wait()
        await anyio.to_thread.run_sync(_import)
        # All of it is imported by now.
        from mcp.server.streamable_http_manager import (  # noqa: PLC0415
            StreamableHTTPSessionManager,
        )
        from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS  # noqa: PLC0415

        from toolscript.surfaces.mcp.sdk_server import McpServer  # noqa: PLC0415

        self.versions = frozenset(HANDSHAKE_PROTOCOL_VERSIONS)
        async with AsyncExitStack() as stack:
            self.servers = {
                name: McpServer(self._app, name, ids=self._ids, is_alone=self._is_alone)
                for name in EXPOSURES
            }
            for name, server in self.servers.items():
                # The SDK's own guard of origins is off: ours stands before every route.
                manager = StreamableHTTPSessionManager(server, session_idle_timeout=self._idle_s)
                await stack.enter_async_context(manager.run())
                self.managers[name] = manager
            for name in _WITHOUT_STATE:
                manager = StreamableHTTPSessionManager(self.servers[name], stateless=True)
                await stack.enter_async_context(manager.run())
                self.stateless[name] = manager
            tasks = await stack.enter_async_context(anyio.create_task_group())
            for server in self.servers.values():
                tasks.start_soon(server.run_background)
            self._ready.set()


def _import() -> None:
    with IMPORTING:
        import_module("toolscript.surfaces.mcp.sdk_server")
        import_module("toolscript.surfaces.mcp.session_stream")
        argument_checks.prepare()
