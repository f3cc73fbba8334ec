"""Figures of recorded calls: how many, how many failed, how long they took, how much came back."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec

from toolscript.storage.activity_log import RecordedCall


class CallFigures(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The figures of some calls."""

    calls: int
    errors: int
    """Those with another outcome than ``ok``."""
    p50_ms: float
    p95_ms: float
    result_bytes: int
    """Of all results together."""
    largest_bytes: int


def call_figures(
    calls: Iterable[RecordedCall], key: Callable[[RecordedCall], str]
) -> dict[str, CallFigures]:
    """Returns the figures of calls, grouped by ``key``."""
    groups: defaultdict[str, list[RecordedCall]] = defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    return {name: _figures(group) for name, group in groups.items()}


def _figures(calls: list[RecordedCall]) -> CallFigures:
    times = sorted(call.ms for call in calls)
    sizes = [call.result_bytes or 0 for call in calls]
    return CallFigures(
        calls=len(calls),
        errors=sum(call.outcome != "ok" for call in calls),
        p50_ms=times[(len(times) - 1) // 2],
        p95_ms=times[round(0.95 * (len(times) - 1))],
        result_bytes=sum(sizes),
        largest_bytes=max(sizes),
    )
