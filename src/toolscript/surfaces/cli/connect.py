"""Chooses who answers a command: the running gateway, or an application in this process."""

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from toolscript.config.locations import key_of
from toolscript.config.settings import PathSettings, Settings, load_settings
from toolscript.errors import GatewayError, GatewayMissingError, ToolscriptError
from toolscript.storage.atomic_files import check_owner
from toolscript.surfaces.cli.gateway_client import (
    Client,
    RemoteClient,
    working_directory,
)
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import config_files, config_stamp
from toolscript.surfaces.server.gateway_file import GatewayFile, GatewayRecord

_PROBE_TIMEOUT_S = 2.0
_EDIT_S, _POLL_S = 2.0, 0.02
"""How long a gateway may take to notice an edit, and how often its health is polled."""
_FIRST_POLL_S, _LAST_POLL_S = 0.01, 0.1
_MARGIN_S = 60.0
"""How long nothing may change beyond the time that servers have to connect."""
_STALE_S = 0.5
"""How old its report on the files may be: it takes less time to look at them again."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A running gateway: its record and its health."""

    record: GatewayRecord
    client: RemoteClient
    health: dict[str, Any] | None
    """None if it does not answer: it hangs, is suspended or is ending."""


def record_file(paths: PathSettings) -> GatewayFile:
    """Returns the file in which the gateway of this call's configuration leaves its record.

    Does not read the configuration, so that a gateway can be found, and stopped, when that is
    broken or gone. Raises `DataDirectoryError` for another user's directory: a record says
    which address gets keys.
    """
    check_owner(paths.data_dir)
    return GatewayFile(paths.data_dir, key_of(config_files(paths)))


def running_gateway(paths: PathSettings, profile: str | None = None) -> RunningGateway | None:
    """Returns this configuration's gateway, if one runs.

    Sends nothing to the address in its record unless the lock shows that it runs: after a
    crash another program, or another user's, may listen there.
    """
    file = record_file(paths)
    record = file.read()
    if record is None or not file.is_locked():
        return None
    client = client_of(record, profile)
    return RunningGateway(record, client, _health(client, record.pid))


def client_of(record: GatewayRecord, profile: str | None = None) -> RemoteClient:
    """Returns a client of the gateway that left this record, with its owner's key."""
    place, certificate = working_directory(), record.certificate
    return RemoteClient(record.url, "its record", record.key, place, profile, certificate)


def _health(client: RemoteClient, pid: int) -> dict[str, Any] | None:
    try:
        health = client.get("/health", timeout_s=_PROBE_TIMEOUT_S)
    except ToolscriptError:
        return None
    # It may have ended just now, and another program listen in its place.
    return health if health.get("pid") == pid else None


@contextmanager
def connected(
    flags: Mapping[str, object], *, refresh: bool = False, **wiring: Any
) -> Generator[Client]:
    """The gateway that serves this call, or else the application in this process.

    A flag that the running gateway was not started with (``--model``, another ``--data-dir``)
    holds for this call, which this process then answers.

    Args:
        flags: The options of the command; see `load_settings`.
        refresh: Connect to every server in this process instead of using the snapshot.
        wiring: Further fields of `bootstrap.Wiring`. By default an application in this process
            leaves skills alone, and connects only to servers that the snapshot lacks.
    """
    settings = load_settings(flags)
    remote = None if refresh else _remote(settings, flags)
    if remote is not None:
        yield remote
        return
    from toolscript.surfaces.cli.local_client import local_client  # noqa: PLC0415 - imports the engine
    from toolscript.surfaces.server.logs import ensure_set_up  # noqa: PLC0415 - imports logging

    ensure_set_up()
    with local_client(settings, wiring, refresh=refresh) as client:
        wait_until_ready(client, settings.gateway.connect_timeout_s)
        yield client


def wait_until_ready(client: Client, connect_timeout_s: float, margin_s: float = _MARGIN_S) -> None:
    """Return when every server has become ready or failed and every tool is indexed.

    Raises `GatewayError` once nothing has changed for both times together, and whatever
    error the application answers instead of its health.
    """
    pause = _FIRST_POLL_S
    before, changed = None, time.monotonic()
    with _display(client) as show:
        while (health := client.get("/health"))["status"] != "ready":
            if health != before:
                before, changed = health, time.monotonic()
            elif time.monotonic() - changed > connect_timeout_s + margin_s:
                raise GatewayError(_stuck(health))
            show(health)
            client.wait(pause)
            pause = min(_LAST_POLL_S, pause * 1.5)


def _stuck(health: dict[str, Any]) -> str:
    passages = health.get("passagesWaiting")
    left = f"{passages} passages of skills" if passages else f"{health['toolsWaiting']} tools"
    waiting = ", ".join(health["waitingFor"]) or f"{left} to be indexed"
    return f"nothing happens any more while waiting for {waiting}; try again, or with --refresh"


def _display(client: Client) -> AbstractContextManager[Callable[[dict[str, Any]], None]]:
    """Returns a function that shows the state, on a terminal only."""
    if not sys.stderr.isatty():
        return nullcontext(lambda _: None)
    from toolscript.surfaces.cli.progress import display  # noqa: PLC0415 - only a terminal pays for it

    return display(client)


def gateway(flags: Mapping[str, object]) -> RemoteClient:
    """Returns the gateway that serves this call; raises `GatewayMissingError` if none runs."""
    client = _remote(load_settings(flags), flags)
    if client is None:
        raise GatewayMissingError(
            "no gateway is running for this configuration; start one with: toolscript gateway start"
        )
    return client


def _remote(settings: Settings, flags: Mapping[str, object]) -> RemoteClient | None:
    chosen = {name for name in ("model", "data_dir", "config") if flags.get(name) is not None}
    profile = settings.client.profile
    if settings.client.url and not chosen:
        origin = "from TOOLSCRIPT_GATEWAY_URL"
        return RemoteClient(settings.client.url, origin, settings.client.token, profile=profile)
    running = running_gateway(settings.paths, profile)
    if running is None:
        return None
    record = running.record
    if "model" in chosen and record.model != settings.embedding.model:
        return None
    if running.health is None:
        note(f"the gateway (process {record.pid}) does not answer; this process does its work")
        return None
    _await_edit(running, settings.paths)
    return running.client


def _await_edit(running: RunningGateway, paths: PathSettings) -> None:
    """Wait until the gateway serves the configuration as it is now; note if it does not."""
    began = time.monotonic()
    health, edited = running.health, config_stamp(paths)
    while health is not None and health.get("configuration") != edited:
        waited = time.monotonic() - began
        if health.get("configurationProblem") and waited > _STALE_S:
            note(f"the gateway keeps its old configuration: {health['configurationProblem']}")
            return
        if waited > _EDIT_S:
            note("the configuration was edited, and the gateway does not follow; restart it")
            return
        time.sleep(_POLL_S)
        health = _health(running.client, running.record.pid)
