"""Figures of recorded calls: how many, how many failed, how long they took."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from toolscript.storage.activity_log import Outcome, RecordedCall

_SENT: set[Outcome] = {"ok", "tool error", "refused", "timeout", "bad answer"}
"""The outcomes of calls that reached their server."""


class CallFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The figures of some calls."""

    calls: int
    errors: int
    """Those with another outcome than ``ok``."""
    p50_ms: float | None
    """Of the calls that reached their server, as the next one; None if there are none."""
    p95_ms: float | None


def call_figures(
    calls: Iterable[RecordedCall], key: Callable[[RecordedCall], str]
) -> dict[str, CallFigures]:
    """Returns the figures of calls, grouped by ``key``."""
    groups: defaultdict[str, list[RecordedCall]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return {name: _figures(group) for name, group in groups.items()}


def _figures(calls: list[RecordedCall]) -> CallFigures:
    times = sorted(call.ms for call in calls if call.outcome in _SENT)
    return CallFigures(
        calls=len(calls),
        errors=sum(call.outcome != "ok" for call in calls),
        p50_ms=times[(len(times) - 1) // 2] if times else None,
        p95_ms=times[round(0.95 * (len(times) - 1))] if times else None,
    )
