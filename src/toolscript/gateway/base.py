"""What an upstream is to the gateway, and what it reports."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from toolscript.types import ServerSpec, ToolSpec


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Connected, with these tools: on connecting, and whenever they change."""

    tools: tuple[ToolSpec, ...]
    version: str = ""
    rejected: tuple[str, ...] = ()


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """A connection that worked has ended; it is being tried again at once."""

    error: str


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to connect has failed; another follows after a while."""

    error: str


Report = Ready | Lost | Failed


class Upstream(Protocol):
    """One server's connection."""

    async def run(self) -> None:
        """Connect, report, reconnect, until cancelled. Never raises for what a server does."""
        ...


Connect = Callable[[ServerSpec, Callable[[Report], None]], Upstream]
"""Makes the upstream of a server, given where its reports go."""
