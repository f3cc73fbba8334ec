"""Connects to the first of several database hosts that accepts the connection.

The driver tries one host after the other within one timeout. A host that hangs, as a stopped
machine does, uses up the whole timeout, and its standby is never asked. So here the next host is
asked as well when one has been silent for a moment.
"""

import asyncio
from typing import Any

from toolscript.postgres.driver import driver

HEAD_START_S = 0.3
"""How long a host may be silent before the next one is asked, too (as in RFC 8305)."""


def host_urls(url: str) -> list[str]:
    """Returns an address for each host of an address: ``scheme://user@one,two:5433/database``."""
    scheme, separator, rest = url.partition("://")
    end = min((place for mark in "/?" if (place := rest.find(mark)) >= 0), default=len(rest))
    user, at, hosts = rest[:end].rpartition("@")
    return [f"{scheme}{separator}{user}{at}{host}{rest[end:]}" for host in hosts.split(",")]


async def connect(url: str, **options: Any) -> Any:
    """Returns a connection to the first host of an address that accepts it, in their order.

    Args:
        url: The address, with commas between its hosts.
        options: What the driver's ``connect`` takes.

    Raises:
        Exception: What the last host that failed has raised; see the driver's ``connect``.
    """
    waiting = host_urls(url)
    attempts: list[asyncio.Task[Any]] = []
    chosen = None
    try:
        while chosen is None:
            if waiting:
                attempts.append(asyncio.ensure_future(driver().connect(waiting.pop(0), **options)))
            running = [each for each in attempts if not each.done()]
            if running:
                await asyncio.wait(
                    running,
                    timeout=HEAD_START_S if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            chosen = next((each for each in attempts if _has_connected(each)), None)
            if chosen is None and not waiting and all(each.done() for each in attempts):
                return attempts[-1].result()  # raises what was wrong
        return chosen.result()
    finally:
        for each in attempts:
            if each is not chosen and not each.cancel() and _has_connected(each):
                each.result().terminate()


def _has_connected(attempt: "asyncio.Task[Any]") -> bool:
    return attempt.done() and not attempt.cancelled() and attempt.exception() is None
