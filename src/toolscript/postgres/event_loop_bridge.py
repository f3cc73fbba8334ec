"""Passes notices of changes from the database's event loop to the application's."""

import asyncio
import threading


class Signal:
    """An event that any thread sets, and that one coroutine waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def set(self) -> None:
        """Lets the coroutine that waits go on, or the next one that comes."""
        with self._lock:
            self._is_set = True
            if self._waiter is not None:
                loop, event = self._waiter
                if not loop.is_closed():
                    loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Returns once the signal is set, and unsets it."""
        event = asyncio.Event()
        with self._lock:
            self._waiter = asyncio.get_running_loop(), event
            if self._is_set:
                event.set()
        try:
            await event.wait()
        finally:
            with self._lock:
                self._waiter = None
        self._is_set = False
