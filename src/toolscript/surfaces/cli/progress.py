"""Waits for servers and the index; shows the progress on a terminal, nothing elsewhere."""

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from toolscript.errors import GatewayError
from toolscript.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from toolscript.surfaces.cli.gateway_client import Client

_FIRST_POLL_S, _LAST_POLL_S = 0.01, 0.1
_MARGIN_S = 60.0
"""How long nothing may change beyond the time that servers have to connect."""
_MARKS = {
    "connecting": "[yellow]…",
    "ready": "[green]✓",
    "failed": "[red]✗",
    "invalid": "[red]✗",
}


def wait_until_ready(
    client: "Client", connect_timeout_s: float, margin_s: float = _MARGIN_S
) -> None:
    """Return when every server has become ready or failed and every tool is indexed.

    Raises `GatewayError` once nothing has changed for both times together, and whatever
    error the application answers instead of its health.
    """
    pause = _FIRST_POLL_S
    before, changed = None, time.monotonic()
    with _display() as show:
        while (health := client.get("/health"))["status"] != "ready":
            if health != before:
                before, changed = health, time.monotonic()
            elif time.monotonic() - changed > connect_timeout_s + margin_s:
                raise GatewayError(_stuck(health))
            show(client, health)
            time.sleep(pause)
            pause = min(_LAST_POLL_S, pause * 1.5)


def _stuck(health: dict[str, Any]) -> str:
    passages = health.get("passagesWaiting")
    left = f"{passages} passages of skills" if passages else f"{health['toolsWaiting']} tools"
    waiting = ", ".join(health["waitingFor"]) or f"{left} to be indexed"
    return f"nothing happens any more while waiting for {waiting}; try again, or with --refresh"


@contextmanager
def _display() -> Generator[Callable[["Client", dict[str, Any]], None]]:
    """A function that shows the state, on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda client, health: None  # noqa: ARG005 - shows nothing
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal pays for it
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(stderr=True), transient=True, refresh_per_second=10) as live:
        yield lambda client, health: live.update(_view(client.get("/servers")["servers"], health))


def _view(servers: list[dict[str, Any]], health: dict[str, Any]) -> "RenderableType":
    from rich.table import Table  # noqa: PLC0415 - only a terminal pays for it
    from rich.text import Text  # noqa: PLC0415

    rows: list[tuple[str, str, str]] = []
    for server in servers:
        state = server["state"]
        detail = f"{server['tools']} tools" if state == "ready" else state
        if server["error"] and state != "ready":
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
