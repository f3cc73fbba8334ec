"""Listens for a server's notices that its tools have changed.

Over the older protocol a server sends them unasked. Over the newest one it sends them
only over a subscription, which may break at any time.
"""

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolscript.gateway.upstream.backoff import Backoff
from toolscript.types import Transport

ANSWER_S = 5.0
"""How long a server may take to answer a subscription."""


class ChangeCount:
    """Counts the changes of its tools that a server has reported, and those that were listed."""

    def __init__(self) -> None:
        self.reported = self._taken_in = 0
        self._listed = anyio.Event()

    @property
    def is_stale(self) -> bool:
        """Whether the tools may have changed since they were listed."""
        return self._taken_in < self.reported

    def take_in(self, reported: int) -> None:
        """Takes note that a listing, or the end of the connection, came after so many changes."""
        self._taken_in = reported
        self._listed.set()
        self._listed = anyio.Event()

    async def taken_in(self) -> None:
        """Waits for a listing after the changes so far: there may be no end of them."""
        reported = self.reported
        while self._taken_in < reported:
            await self._listed.wait()


class ToolListChanges:
    """The notices over one connection. Lives as long as the connection."""

    def __init__(self, session: ClientSession, transport: Transport) -> None:
        self._session = session
        capabilities = session.server_capabilities
        tools = capabilities.tools if capabilities else None
        self._promised = bool(tools and tools.list_changed)
        self._modern = session.protocol_version in MODERN_PROTOCOL_VERSIONS
        # The stream of a server over HTTP may have ended unnoticed.
        self._reliable = transport != "http"
        self._listening = False

    @property
    def is_notified(self) -> bool:
        """Whether the server reports changes; otherwise its tools have to be polled."""
        return self._listening if self._modern else self._promised and self._reliable

    async def begin(self, tasks: TaskGroup, changed: Callable[[], None]) -> None:
        """Subscribes if that is needed; calls ``changed`` at each notice and for missed ones."""
        if not (self._modern and self._promised):
            return
        answered = anyio.Event()
        tasks.start_soon(self._listen, answered, changed)
        with anyio.move_on_after(ANSWER_S):
            await answered.wait()

    async def _listen(self, answered: anyio.Event, changed: Callable[[], None]) -> None:
        backoff = Backoff()
        while True:
            began = anyio.current_time()
            try:
                async with listen(self._session, tools_list_changed=True) as subscription:
                    if not subscription.honored.tools_list_changed:
                        return
                    self._listening = True
                    if answered.is_set():  # notices before are lost
                        changed()
                    answered.set()
                    async for _ in subscription:
                        changed()
            except MCPError:
                if not answered.is_set():
                    return  # it knows no subscriptions
            except SubscriptionLost:
                pass
            finally:
                self._listening = False
                answered.set()
            backoff.lost(anyio.current_time() - began)
            await anyio.sleep(backoff.pause())
