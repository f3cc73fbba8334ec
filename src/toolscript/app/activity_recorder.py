"""Records calls of tools: queues them in memory, and writes them in batches in a thread."""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping

import anyio
import anyio.to_thread

from toolscript.errors import ActivityLogError
from toolscript.storage.activity_log import (
    MAX_ROWS,
    ActivityPage,
    ActivityQuery,
    RecordedCall,
)
from toolscript.storage.atomic_files import write_failure
from toolscript.storage.base import ActivityStorage

log = logging.getLogger(__name__)
WRITE_AFTER_S = 0.5
"""How long the first call of a batch waits for others."""
MAX_BATCH = 256
MAX_QUEUED = MAX_ROWS
"""More would replace one another in the storage anyway."""
WARN_EVERY_S = 60.0


class ActivityRecorder:
    """The queue before an `ActivityStorage`. A call waits neither for a disk nor for a lock.

    Calls that cannot be written are dropped and counted; the log says so once a minute.

    Args:
        store: Where the calls are written.
        warn_every_s: How often the log says that calls are missing.
    """

    def __init__(self, store: ActivityStorage, warn_every_s: float = WARN_EVERY_S) -> None:
        self.dropped = 0
        """How many calls could not be recorded."""
        self.state = "running"
        """``running``; ``failing:`` and the reason while calls cannot be recorded."""
        self._store = store
        self._queue: deque[RecordedCall] = deque()
        self._queued = anyio.Event()
        self._writing = threading.Lock()
        self._warn_every_s = warn_every_s
        self._unreported = 0
        self._reported_s: float | None = None

    def record(self, call: RecordedCall) -> None:
        """Queues a call that has ended. Must be called on the event loop; never fails."""
        if len(self._queue) >= MAX_QUEUED:
            self._drop(1, "too many wait to be written")
            return
        self._queue.append(call)
        self._queued.set()

    async def run(self) -> None:
        """Writes the queued calls, for ever."""
        while True:
            await self._queued.wait()
            await anyio.sleep(WRITE_AFTER_S)
            self._queued = anyio.Event()
            await anyio.to_thread.run_sync(self.flush)

    def flush(self) -> None:
        """Writes the queued calls. Blocks; any thread may call."""
        with self._writing:
            while self._queue:
                size = min(MAX_BATCH, len(self._queue))
                batch = [self._queue.popleft() for _ in range(size)]
                try:
                    self._store.append(batch)
                    self.state = "running"
                except Exception as error:  # noqa: BLE001 - a boundary: no call fails for want of a record
                    # The next batch would wait as long, and fail as well.
                    self._drop(size + len(self._queue), str(error), error)
                    self.state = f"failing: {error}"
                    self._queue.clear()

    def close(self) -> None:
        """Writes the rest of the calls, and logs how many could not be written."""
        self.flush()
        if self._unreported:
            self._report("for the same reason", {})

    def read(self, query: ActivityQuery) -> ActivityPage:
        """Returns the calls that a query asks for, those still queued included. Blocks.

        Raises `ActivityLogError` if they cannot be read.
        """
        self.flush()
        try:
            return self._store.read(query)
        except OSError as error:
            log.warning("the log of calls %s cannot be read now: %s", self._store.location, error)
            raise ActivityLogError(
                "the log of calls cannot be read now; the gateway's log says why; try again"
            ) from None

    def _drop(self, number: int, why: str, error: Exception | None = None) -> None:
        self.dropped += number
        self._unreported += number
        now, is_first = time.monotonic(), self._reported_s is None
        if self._reported_s is None or now - self._reported_s >= self._warn_every_s:
            self._reported_s = now
            # The reason is logged once for all files that cannot be written, the number each time.
            self._report(why, write_failure(error) if error and is_first else {})

    def _report(self, why: str, extra: Mapping[str, str]) -> None:
        message = "calls missing in the log of calls %s: %d (%s)"
        log.warning(message, self._store.location, self._unreported, why, extra=extra)
        self._unreported = 0
