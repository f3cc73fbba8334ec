"""Shows on a terminal how far servers, index and download are."""

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
    with Live(console=Console(stderr=True), transient=True, refresh_per_second=10) as live:
        yield lambda health: live.update(_view(client.get("/servers")["servers"], health))


def _view(servers: list[dict[str, Any]], health: dict[str, Any]) -> Table:
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
        rows.append(("", "indexing", f"{done} of {total} tools"))
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
