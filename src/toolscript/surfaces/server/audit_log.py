"""Logs and records each call of a tool, and counts callers without a valid token.

Neither has arguments or results. A line per call has the level INFO, one about refusals WARNING.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from toolscript.errors import ToolscriptError
from toolscript.gateway.raw_results import RawResult
from toolscript.storage.activity_log import Outcome, RecordedCall
from toolscript.surfaces.server.error_codes import outcome_of
from toolscript.text.display import printable
from toolscript.types import Grant

if TYPE_CHECKING:
    from toolscript.app.application import App

log = logging.getLogger("toolscript.audit")
OWNER, ANYONE = "owner", "anyone"
HOLDER: ContextVar[str] = ContextVar("holder", default=OWNER)
"""Who makes the request: the id of a token, `OWNER`, or `ANYONE` if there are no tokens."""
PERIOD_S = 60.0
_SHOWN = 200
"""Characters of a name that are recorded."""


async def audited(
    app: "App",
    tool: str,
    arguments: Mapping[str, Any],
    grant: Grant,
    call: Awaitable[dict[str, Any]],
) -> dict[str, Any]:
    """Returns the result of a call, or raises its error, once the outcome is recorded.

    Args:
        app: The application that is called, which has the record.
        tool: The name by which the tool is called.
        arguments: The call's arguments.
        grant: The rights of the caller.
        call: The call itself.
    """
    logged, began = "cancelled", time.perf_counter()
    outcome: Outcome = "cancelled"
    result: dict[str, Any] | None = None
    try:
        result = await call
        logged, outcome = ("error", "tool error") if result.get("isError") else ("ok", "ok")
    except BaseException as error:
        outcome = outcome_of(type(error))
        if isinstance(error, Exception):
            known = isinstance(error, ToolscriptError)
            logged = type(error).__name__ if known else "InternalError"
        raise
    else:
        return result
    finally:
        who, ms = HOLDER.get(), round((time.perf_counter() - began) * 1000, 1)
        catalogue = app.catalogue(grant)  # whose server may have connected meanwhile
        shown = printable(catalogue.id_of(tool), _SHOWN)
        extra = {"who": who, "tool": shown, "outcome": logged, "ms": ms}
        log.info("%s called %s: %s in %s ms", who, shown, logged, ms, extra=extra)
        sent = _json(arguments)
        app.activity.record(
            RecordedCall(
                time=_now(),
                who=who,
                tool=shown,
                server=printable(catalogue.server_of(tool), _SHOWN),
                outcome=outcome,
                ms=ms,
                argument_bytes=None if sent is None else len(sent),
                result_bytes=None if result is None else _json_bytes(result),
            )
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _json_bytes(value: Mapping[str, Any]) -> int | None:
    """Returns the length of a value as JSON; None if it cannot be written as JSON."""
    if isinstance(value, RawResult):
        return len(value.text)
    written = _json(value)
    return None if written is None else len(written)


def _json(value: Mapping[str, Any]) -> bytes | None:
    """Returns a value as JSON; None if it cannot be written as that."""
    try:
        return msgspec.json.encode(value)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        return None


class Refusals:
    """Counts callers without a valid token; logs the first at once, then once a period."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self.total = 0
        """How many callers were refused since the process began."""
        self.last_address = ""
        """The address of the last one."""
        self.last_time = ""
        """When that was (UTC)."""

    def add(self, client: str) -> None:
        """Count a refusal of a caller at this address. Call it on the event loop."""
        self._count += 1
        self.total += 1
        self.last_address, self.last_time = client, _now()
        if self._timer is None:
            self._warn()

    def _warn(self) -> None:
        self._timer = None
        if self._count:
            log.warning(
                "refused for lack of a valid token: %d, the last from %s",
                *(self._count, self.last_address),
            )
            self._count = 0
            self._timer = asyncio.get_running_loop().call_later(self._period_s, self._warn)
