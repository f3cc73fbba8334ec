"""Writes points in time as every file and answer has them."""

from datetime import UTC, datetime, timedelta


def utc_timestamp(after_s: float = 0) -> str:
    """Returns the time that is so many seconds from now: ISO 8601, UTC, in whole seconds."""
    return (datetime.now(UTC) + timedelta(seconds=after_s)).isoformat(timespec="seconds")
