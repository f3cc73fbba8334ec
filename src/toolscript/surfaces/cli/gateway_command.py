"""``toolscript gateway start|status|stop|page``."""

import contextlib
import os
import select
import signal
import time
from typing import Any

import click

from toolscript.config.settings import PathSettings, Settings, load_settings
from toolscript.errors import GatewayError, GatewayRunningError
from toolscript.surfaces.cli.connect import (
    RunningGateway,
    client_of,
    record_file,
    running_gateway,
    wait_until_ready,
)
from toolscript.surfaces.cli.connect import gateway as connected_gateway
from toolscript.surfaces.cli.gateway_client import RemoteClient
from toolscript.surfaces.cli.gateway_starter import (
    STOP_TIMEOUT_S,
    BackgroundGateway,
    ensure_gateway,
)
from toolscript.surfaces.cli.options import output_option, settings_options
from toolscript.surfaces.cli.output import note, print_json
from toolscript.surfaces.server.config_sources import load
from toolscript.surfaces.server.gateway_file import OPEN, GatewayFile, GatewayRecord
from toolscript.text.display import counted

NOT_RUNNING = 3
"""The exit status of ``gateway status`` with no gateway, as in the LSB's status actions."""
NOT_ANSWERING = 1
"""The exit status of ``gateway status`` with a gateway that does not answer."""
_KILL_TIMEOUT_S = 10.0
_POLL_S = 0.02
_OPEN_S, _OPEN_POLL_S = 20.0, 0.2
"""How long a browser may take until it has opened the link."""
_EXIT_S = 1.0
"""How long the exit of a process that has freed everything is waited for."""


@click.group()
def gateway() -> None:
    """Run a gateway that keeps servers connected and the index in memory."""


@gateway.command()
@settings_options(
    *("host", "port", "tls_cert", "tls_key", "exposure", "oauth", "scripts", "model"),
    *("config", "data_dir"),
)
@click.option("--foreground", is_flag=True, help="Stay in the foreground, for a supervisor.")
@click.option("--open", "is_open", is_flag=True, help="Ask local programs for no token.")
@click.option("--on-demand", is_flag=True, hidden=True)
def start(foreground: bool, is_open: bool, on_demand: bool, **flags: Any) -> None:
    """Start the gateway, and return when every server is ready or has failed."""
    settings = load_settings(flags)
    config = load(settings.paths)
    running = _gateway(settings.paths)
    if running is not None:
        raise GatewayRunningError(
            f"a gateway is {_location(running, 'running already')}; "
            "stop it with: toolscript gateway stop"
        )
    if foreground:
        from toolscript.surfaces.http.gateway_process import IDLE_S, serve  # noqa: PLC0415 - the server and all below it
        from toolscript.surfaces.web.screens import page_routes  # noqa: PLC0415 - the same

        serve(settings, page_routes, is_open=is_open, idle_s=IDLE_S if on_demand else 0)
        return
    for problem in config.problems:
        note(str(problem))
    record, servers = _start_in_background(settings, flags, is_open=is_open)
    ready = [server for server in servers if server["state"] in {"ready", "resting"}]
    tools = sum(server["tools"] for server in ready)
    click.echo(
        f"running at {record.url}: {counted(tools, 'tool')} of {counted(len(ready), 'server')}"
    )
    if record.is_open:
        note(f"{OPEN}; without --open it asks for a token")
    for server in servers:
        if server["state"] == "failed":
            note(f"{server['name']}: {server['error']}")


@gateway.command()
@output_option
@settings_options("config", "data_dir")
def status(output: str, **flags: Any) -> int:
    """Show whether the gateway runs. Exits with 3 if not, 1 if it does not answer."""
    running = _gateway(load_settings(flags).paths)
    health = running and running.health
    if output == "json":
        silent = {"status": "silent", "pid": running.record.pid} if running else {}
        stopped = {"status": "stopped", "url": None}
        print_json({**(health or silent), "url": running.record.url} if running else stopped)
    else:
        _print_status(running)
    return 0 if health else NOT_ANSWERING if running else NOT_RUNNING


def _print_status(running: RunningGateway | None) -> None:
    if running is None:
        click.echo("not running")
        return
    health = running.health or {}
    tools = f", {counted(health['tools'], 'tool')}" if health else ""
    click.echo(f"{_location(running, 'running')}{tools}")
    if health.get("configurationProblem"):
        note(f"it keeps its old configuration: {health['configurationProblem']}")
    if "database" in health:
        from toolscript.surfaces.server.doctor_checks import database_line  # noqa: PLC0415 - imports more

        note(database_line(health["database"]))


@gateway.command()
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=STOP_TIMEOUT_S,
    show_default=True,
    help="Seconds to wait before the gateway is killed.",
)
@settings_options("config", "data_dir")
def stop(timeout_s: float, **flags: Any) -> None:
    """Stop the gateway and the servers it started. Exits with 1 if it had to be killed."""
    settings = load_settings(flags)
    running = _gateway(settings.paths)
    if running is None:
        click.echo("not running")
        return
    stop_gateway(running.record.pid, record_file(settings.paths), timeout_s)
    click.echo("stopped")


def stop_gateway(pid: int, file: GatewayFile, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Stops a gateway by its process and record; raises `GatewayError` if it had to be killed."""
    # A suspended process gets no other signal than the second.
    _signal(pid, signal.SIGTERM, getattr(signal, "SIGCONT", signal.SIGTERM))
    if _ends(file, timeout_s):
        _await_exit(pid)
        return
    _signal(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    if not _ends(file, _KILL_TIMEOUT_S):
        raise GatewayError(f"process {pid} cannot be ended; the system is waiting for something")
    file.remove(pid)
    raise GatewayError(
        f"process {pid} did not stop within {timeout_s:g} s and was killed; "
        "what it did last may be lost, and its servers end within seconds"
    )


def _gateway(paths: PathSettings) -> RunningGateway | None:
    """This configuration's gateway; raises `GatewayRunningError` while one is starting."""
    running = running_gateway(paths)
    if running is None and record_file(paths).is_locked():
        raise GatewayRunningError("a gateway is just starting; try again in a moment")
    return running


def _location(running: RunningGateway, doing: str) -> str:
    silent = "" if running.health else ", but it does not answer"
    return f"{doing} at {running.record.url} (process {running.record.pid}){silent}"


def _signal(pid: int, *numbers: int) -> None:
    for number in numbers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _ends(file: GatewayFile, timeout_s: float) -> bool:
    """Whether the gateway ends in time, which frees its lock."""
    deadline = time.monotonic() + timeout_s
    while file.is_locked() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return not file.is_locked()


def _await_exit(pid: int) -> None:
    """Waits a moment for the end of a process that has freed its lock, and only has to exit."""
    deadline = time.monotonic() + _EXIT_S
    with contextlib.suppress(OSError):  # there is no such process
        # A descriptor tells when the process exits, even if its parent never waits for it.
        if hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(pid)
            select.select([handle], [], [], _EXIT_S)
            os.close(handle)
        elif os.name == "posix":
            while time.monotonic() < deadline:
                os.kill(pid, 0)
                time.sleep(_POLL_S)


def _start_in_background(
    settings: Settings, flags: dict[str, Any], *, is_open: bool
) -> tuple[GatewayRecord, list[dict[str, Any]]]:
    """Start a gateway as a process, and return its record and servers; leave none on errors."""
    mode = "--open" if is_open else ""
    with BackgroundGateway(settings.paths, flags, mode) as started:
        record = started.record()
        client = client_of(record)
        wait_until_ready(client, settings.gateway.connect_timeout_s)
        return record, client.get("/servers")["servers"]


@gateway.command()
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open nothing.")
@settings_options("profile", "config", "data_dir")
def page(print_only: bool, **flags: Any) -> None:
    """Open the gateway's page in a browser; start a gateway if none runs.

    The link works once, within two minutes. Who opens it may do what you may:
    everything, or what TOOLSCRIPT_GATEWAY_TOKEN grants.
    """
    settings = load_settings(flags)
    if settings.client.url and not any(flags.values()):
        client = connected_gateway(flags)
    else:
        client = client_of(ensure_gateway(settings.paths, flags), settings.client.profile)
    made = client.post("/ui/link", b"{}")
    link = (made.get("origin") or client.url).rstrip("/") + made["path"]
    if not print_only and _is_opened(client, link):
        click.echo(f"opened {client.url} in your browser")
    else:
        click.echo(link)


def _is_opened(client: RemoteClient, link: str) -> bool:
    """Starts a browser, and returns whether it has opened the link."""
    from toolscript.surfaces.cli.browser_start import start_browser  # noqa: PLC0415 - imports more

    code = link.rpartition("=")[2].encode()
    with start_browser(link) as is_started:
        deadline = time.monotonic() + _OPEN_S
        while is_started and time.monotonic() < deadline:
            if not client.post("/ui/link/waiting", code)["isWaiting"]:
                return True
            time.sleep(_OPEN_POLL_S)
    if is_started:  # such as one in a sandbox that may not read the file
        note(f"the browser has not opened the page within {_OPEN_S:g} s; open it at:")
    return False
