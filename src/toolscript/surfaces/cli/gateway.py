"""``toolscript gateway start|status|stop``."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from toolscript import config as configuration
from toolscript.errors import GatewayError, GatewayMissingError, GatewayRunningError
from toolscript.files import open_private
from toolscript.settings import OPTION, Settings
from toolscript.surfaces.cli.client import RemoteClient
from toolscript.surfaces.cli.connect import record_file, running_gateway
from toolscript.surfaces.cli.options import output_option, settings_from, settings_options
from toolscript.surfaces.cli.output import counted, note, print_json
from toolscript.surfaces.cli.progress import wait_until_ready
from toolscript.surfaces.cli.wire import NOT_RUNNING
from toolscript.surfaces.record import Record, RecordFile

LISTEN_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02


@click.group()
def gateway() -> None:
    """Keep the servers connected and the index warm, behind an HTTP address."""


@gateway.command()
@settings_options("host", "port", "model", "config", "data_dir")
@click.option("--foreground", is_flag=True, help="Stay in the foreground, as under a supervisor.")
def start(foreground: bool, **flags: Any) -> None:  # noqa: FBT001 - click passes every option by name
    """Start the gateway, and return when its servers have settled."""
    settings = settings_from(**flags)
    config = configuration.load(settings.config, Path.cwd(), os.environ)
    running = running_gateway(settings)
    if running is not None:
        raise GatewayRunningError(
            f"a gateway is running already at {running[0].url} (process {running[0].pid}); "
            "stop it with: toolscript gateway stop"
        )
    if foreground:
        from toolscript.surfaces.http.server import serve  # noqa: PLC0415 - the server and all below it

        serve(settings)
        return
    for problem in config.problems:
        note(str(problem))
    record = _start_in_background(settings, record_file(settings), flags)
    client = RemoteClient(record.url, "its record")
    wait_until_ready(client)
    _tell(record, client)


@gateway.command()
@output_option
@settings_options("config", "data_dir")
def status(output: str, **flags: Any) -> int:
    """Say whether the gateway runs; exit 3 if it does not."""
    settings = settings_from(**flags)
    found = running_gateway(settings)
    if output == "json":
        health = found[1] if found else {"status": "stopped"}
        print_json({**health, "url": found[0].url if found else None})
    elif found:
        record, health = found
        click.echo(
            f"running at {record.url} (process {record.pid}), {counted(health['tools'], 'tool')}"
        )
    else:
        click.echo("not running")
    return 0 if found else NOT_RUNNING


@gateway.command()
@settings_options("config", "data_dir")
def stop(**flags: Any) -> None:
    """Stop the gateway and the servers it started."""
    found = running_gateway(settings_from(**flags))
    if found is None:
        click.echo("not running")
        return
    pid = found[0].pid
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _alive(pid):
        if time.monotonic() > deadline:
            raise GatewayError(
                f"process {pid} did not stop within {STOP_TIMEOUT_S:g} s; "
                f"end it with: kill -9 {pid}"
            )
        time.sleep(_POLL_S)
    click.echo("stopped")


def _start_in_background(settings: Settings, file: RecordFile, flags: dict[str, Any]) -> Record:
    log = settings.data_dir / "logs" / f"{file.path.stem}.log"
    command = [sys.executable, "-m", "toolscript", "gateway", "start", "--foreground"]
    for name, value in flags.items():
        if value is not None:
            command += [OPTION[name].flag or "", str(value)]
    with open_private(log) as output:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with options of our own
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return _record_of(process, file, log)


def _record_of(process: "subprocess.Popen[bytes]", file: RecordFile, log: Path) -> Record:
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        code = process.poll()
        if code is not None:
            raise GatewayError(_last_words(log) or f"the gateway ended with code {code}")
        record = file.read()
        if record is not None and record.pid == process.pid and _answers(record):
            return record
        time.sleep(_POLL_S)
    process.terminate()
    raise GatewayError(f"the gateway did not listen within {LISTEN_TIMEOUT_S:g} s; see {log}")


def _answers(record: Record) -> bool:
    try:
        RemoteClient(record.url, "its record").get("/health")
    except GatewayMissingError:
        return False
    return True


def _last_words(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("toolscript: ") if lines else ""


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has stopped; only its parent can take it away.
    stat = Path(f"/proc/{pid}/stat")
    return not (stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z")


def _tell(record: Record, client: RemoteClient) -> None:
    servers = client.get("/servers")["servers"]
    ready = [server for server in servers if server["state"] == "ready"]
    tools = sum(server["tools"] for server in ready)
    click.echo(
        f"running at {record.url}: {counted(tools, 'tool')} of {counted(len(ready), 'server')}"
    )
    for server in servers:
        if server["state"] == "failed":
            note(f"{server['name']}: {server['error']}")
