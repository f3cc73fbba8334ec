"""Logs each call of a tool with caller and outcome, and counts callers without a valid token.

Neither arguments nor results are logged. A line per call has the level INFO, one
about refusals WARNING.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any

from toolscript.errors import ToolscriptError
from toolscript.text.display import printable

log = logging.getLogger("toolscript.audit")
OWNER, ANYONE = "owner", "anyone"
HOLDER: ContextVar[str] = ContextVar("holder", default=OWNER)
"""Who makes the request: the id of a token, `OWNER`, or `ANYONE` where there are no tokens."""
PERIOD_S = 60.0
_SHOWN = 200


async def audited(tool: str, call: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Returns what a call returns, and raises what it raises, once its outcome is logged."""
    outcome, began = "cancelled", time.perf_counter()
    try:
        result = await call
        outcome = "error" if result.get("isError") else "ok"
    except ToolscriptError as error:
        outcome = type(error).__name__
        raise
    except Exception:
        outcome = "InternalError"
        raise
    else:
        return result
    finally:
        who, ms = HOLDER.get(), round((time.perf_counter() - began) * 1000, 1)
        shown = printable(tool, _SHOWN)
        extra = {"who": who, "tool": shown, "outcome": outcome, "ms": ms}
        log.info("%s called %s: %s in %s ms", who, shown, outcome, ms, extra=extra)


class Refusals:
    """Counts callers without a valid token; logs the first at once, then once a period."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._count = 0
        self._last = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, client: str) -> None:
        """Count a refusal of a caller at this address. Call it on the event loop."""
        self._count += 1
        self._last = client
        if self._timer is None:
            self._warn()

    def _warn(self) -> None:
        self._timer = None
        if self._count:
            log.warning(
                "refused for want of a valid token: %d, the last from %s",
                *(self._count, self._last),
            )
            self._count = 0
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._warn)
