"""Which application answers a command: the running gateway's, or one of its own."""

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolscript.config import servers as configuration
from toolscript.config.settings import Settings
from toolscript.errors import GatewayMissingError, ToolscriptError
from toolscript.storage.atomic_files import check_owner
from toolscript.surfaces.cli.client import TIMEOUT_S, Client, RemoteClient
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import sources, stamped
from toolscript.surfaces.server.gateway_file import GatewayFile, Record

if TYPE_CHECKING:
    from toolscript.skills.scanner import SkillMode

_PROBE_TIMEOUT_S = 2.0
_EDIT_S, _POLL_S = 2.0, 0.02
"""How long a gateway may take to notice an edit, and how often it is asked meanwhile."""
_LOOK_S = 0.5
"""How old what it says of the files may be: longer than it takes to look at them again."""


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that runs, and how it is."""

    record: Record
    health: dict[str, Any] | None
    """None when it does not say: it hangs, was suspended or is closing down."""


def record_file(settings: Settings) -> GatewayFile:
    """Where the gateway of this call's configuration leaves its record.

    The configuration is not read: a gateway can be found, and stopped, when
    its file is broken or gone. Raises `DataDirectoryError`: a record says where to send keys.
    """
    check_owner(settings.data_dir)
    return GatewayFile(settings.data_dir, configuration.key_of(sources(settings)))


def running_gateway(settings: Settings) -> Running | None:
    """This configuration's gateway, if one runs.

    The address in its record is not asked before the lock shows that it runs:
    after a crash another program, or another user's, may listen there.
    """
    file = record_file(settings)
    record = file.read()
    if record is None or not file.is_held():
        return None
    return Running(record, _health(record))


def recorded(record: Record, timeout_s: float = TIMEOUT_S) -> RemoteClient:
    """The gateway that left this record, asked by its owner."""
    return RemoteClient(record.url, "its record", record.key, timeout_s)


def _health(record: Record) -> dict[str, Any] | None:
    try:
        health = recorded(record, _PROBE_TIMEOUT_S).get("/health")
    except ToolscriptError:
        return None
    # It may have ended just now, and another program listen in its place.
    return health if health.get("pid") == record.pid else None


@contextmanager
def connected(  # noqa: PLR0913 - what a command may want different, each by its name
    settings: Settings,
    flags: Mapping[str, object],
    *,
    refresh: bool = False,
    only: str | None = None,
    embed: bool = True,
    live: bool = False,
    skills: "SkillMode" = "off",
) -> Generator[Client]:
    """The gateway that serves this call, or the application in this process.

    Without ``embed``, that one needs no model: it is only to list.
    ``skills`` says whether it looks for those.

    A flag that the running gateway was not started with (``--model``, another
    ``--data-dir``) holds for this call: it is answered in this process, which
    then connects to no other server than ``only``, or to every one if it has to
    be ``live``.
    """
    remote = None if refresh else _remote(settings, flags)
    if remote is not None:
        yield remote
        return
    from toolscript.surfaces.cli.local_client import local_client  # noqa: PLC0415 - imports the engine

    alone = local_client(
        settings, refresh=refresh, only=only, embed=embed, live=live, skills=skills
    )
    with alone as local:
        yield local


def gateway(settings: Settings, flags: Mapping[str, object]) -> RemoteClient:
    """The gateway that serves this call; raises `GatewayMissingError` where none runs."""
    found = _remote(settings, flags)
    if found is None:
        raise GatewayMissingError(
            "no gateway is running for this configuration; start one with: toolscript gateway start"
        )
    return found


def _remote(settings: Settings, flags: Mapping[str, object]) -> RemoteClient | None:
    chosen = {name for name in ("model", "data_dir", "config") if flags.get(name) is not None}
    if settings.gateway_url and not chosen:
        origin = "from TOOLSCRIPT_GATEWAY_URL"
        return RemoteClient(settings.gateway_url, origin, settings.gateway_token)
    found = running_gateway(settings)
    if found is None:
        return None
    record = found.record
    if "model" in chosen and record.model != settings.model:
        return None
    if found.health is None:
        note(f"the gateway (process {record.pid}) does not answer; this process does its work")
        return None
    _await_edit(found, settings)
    return recorded(record)


def _await_edit(found: Running, settings: Settings) -> None:
    """Let the gateway take over what was edited just now; say so if it does not."""
    began = time.monotonic()
    health, edited = found.health, stamped(settings)
    while health is not None and health.get("configuration") != edited:
        waited = time.monotonic() - began
        if health.get("configurationProblem") and waited > _LOOK_S:
            note(f"the gateway keeps its old configuration: {health['configurationProblem']}")
            return
        if waited > _EDIT_S:
            note("the configuration was edited, and the gateway does not follow; restart it")
            return
        time.sleep(_POLL_S)
        health = _health(found.record)
