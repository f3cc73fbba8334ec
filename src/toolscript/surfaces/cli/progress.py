"""Shows on a terminal how far servers, index and download are."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from toolscript.surfaces.cli.gateway_client import Client
from toolscript.text.display import printable

_MARKS = {
    "connecting": "[yellow]…",
    "ready": "[green]✓",
    "resting": "[green]✓",
    "failed": "[red]✗",
    "invalid": "[red]✗",
}


@contextmanager
def display(client: Client) -> Generator[Callable[[dict[str, Any]], None]]:
    """A function that shows the servers of an application beside its health."""
    left = TimeLeft()
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=10) as live:

        def show(health: dict[str, Any]) -> None:
            estimate = left.estimate(health["toolsWaiting"], time.monotonic())
            live.update(_view(client.get("/servers")["servers"], health, estimate))

        yield show


class TimeLeft:
    """Estimates how long indexing will take, from its speed so far."""

    def __init__(self) -> None:
        self._first = (0, 0.0)
        """The largest number of waiting tools, and when there were so many."""

    def estimate(self, waiting: int, now: float) -> float | None:
        """Returns the seconds left; None if that cannot be told yet.

        Args:
            waiting: The number of tools that are not indexed yet.
            now: The time, in seconds.
        """
        if waiting > self._first[0]:
            self._first = waiting, now
        most, began = self._first
        return waiting * (now - began) / (most - waiting) if waiting < most else None


def _view(servers: list[dict[str, Any]], health: dict[str, Any], left_s: float | None) -> Table:
    """Returns a row for each server, for indexing and for downloads."""
    rows: list[tuple[str, str, str]] = []
    for server in servers:
        state = server["state"]
        detail = f"{server['tools']} tools" if state in {"ready", "resting"} else state
        if server["error"] and state not in {"ready", "resting"}:
            detail = f"{state}: {server['error']}"
        rows.append((_MARKS.get(state, "[dim]-"), server["name"], detail))
    if health["toolsWaiting"]:
        done, total = health["tools"] - health["toolsWaiting"], health["tools"]
        estimate = "" if left_s is None else f", {max(1, round(left_s))} s left"
        rows.append(("", "indexing", f"{done} of {total} tools{estimate}"))
    if passages := health.get("passagesWaiting"):
        rows.append(("", "indexing", f"{passages} passages of skills to go"))
    if download := health.get("download"):
        done, total = download["doneBytes"], download["totalBytes"]
        size = f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if total else "looking for it"
        rows.append(("", f"downloading {download['model']}", size))
    table = Table.grid(padding=(0, 1))
    for mark, name, detail in rows:
        table.add_row(mark, Text(printable(name, 60)), Text(printable(detail, 80), style="dim"))
    return table
