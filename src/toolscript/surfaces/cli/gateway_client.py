"""The clients of the application, and which of them a command gets.

A command asks the running gateway over HTTP, or an application in this process. Both
answer the same requests with the same JSON.
"""

import http.client
import json
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, cast
from urllib.parse import urlencode, urlsplit

from toolscript import errors
from toolscript.config import servers as configuration
from toolscript.config.settings import Settings
from toolscript.errors import GatewayError, GatewayMissingError, ToolscriptError
from toolscript.storage.atomic_files import check_owner
from toolscript.surfaces.cli.options import settings_from
from toolscript.surfaces.cli.output import note
from toolscript.surfaces.server.config_sources import config_files, config_stamp
from toolscript.surfaces.server.gateway_file import GatewayFile, GatewayRecord
from toolscript.text import redact

if TYPE_CHECKING:
    from toolscript.skills.scanner import SkillMode

TIMEOUT_S = 15.0
_PROBE_TIMEOUT_S = 2.0
_EDIT_S, _POLL_S = 2.0, 0.02
"""How long a gateway may take to notice an edit, and how often its health is polled."""
_STALE_S = 0.5
"""How old its report on the files may be: it takes less time to look at them again."""
_SHAPES: dict[str, dict[str, type | tuple[type, ...]]] = {
    "/health": {"status": str, "tools": int, "waitingFor": list},
    "/search": {"results": list, "degraded": list, "threshold": (int, float)},
    "/servers": {"servers": list},
    "/skills": {"skills": list, "problems": list},
    "/skills/search": {"results": list, "degraded": list, "threshold": (int, float)},
    "/graph": {"edges": list},
    "/graph/related": {"before": list, "after": list, "needs": list},
    "/tools": {"tools": list},
    "/runtime/tools.ts": {"module": str, "usage": str, "tools": list},
    "/runtime/tools.py": {"module": str, "usage": str, "tools": list},
}
"""The fields by which an answer is known as a gateway's: any program may answer at an address."""

Parameters = Iterable[tuple[str, object]]


class Getter(Protocol):
    """Reads from the application."""

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """Returns the JSON object at a path; raises the error that an error answer names."""
        ...


class Client(Getter, Protocol):
    """Sends requests of every kind to the application."""

    @property
    def snapshot(self) -> bool:
        """Whether the answers come from a snapshot rather than from connected servers."""
        ...

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """Sends JSON to a path and returns the answer, however long it takes."""
        ...


def target(path: str, parameters: Parameters) -> str:
    """Returns path and query of a request, without parameters that are None."""
    given = [(name, str(value)) for name, value in parameters if value is not None]
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def answer(status: int, body: bytes) -> dict[str, Any]:
    """Returns the JSON object of an answer; raises the error that an error status carries."""
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise GatewayError(
            f"the gateway answered HTTP {status} with something that is not a JSON object"
        )
    value = cast("dict[str, Any]", value)
    if status >= http.client.BAD_REQUEST or "error" in value:
        raise error_named(str(value.get("type")), str(value.get("error")))
    return value


def error_named(name: str, message: str) -> errors.ToolscriptError:
    """Returns the error that a gateway has answered; `GatewayError` for an unknown name."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.ToolscriptError):
        return kind(message)
    return errors.GatewayError(message)


class RemoteClient:
    """A running gateway, asked over HTTP. Opens a connection for each request.

    ``origin`` says in messages where the URL comes from.
    """

    snapshot = False

    def __init__(
        self, url: str, origin: str, token: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.url, self.token = url, token
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        self._headers = {"Content-Type": "application/json", **authorization}
        self._origin = origin
        self._timeout_s = timeout_s

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """See `Client.get`; raises `GatewayMissingError` when nothing answers."""
        value = self._request("GET", target(path, parameters), None, self._timeout_s)
        shape = _SHAPES.get(path, {})
        if all(isinstance(value.get(key), kind) for key, kind in shape.items()):
            return value
        raise GatewayError(f"{self._shown} answered something that is not toolscript's")

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """See `Client.post`."""
        return self._request("POST", path, body, None)

    def send(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None = None
    ) -> http.client.HTTPConnection:
        """Send a request, and return the connection on which its answer will come.

        Raises `OSError`, `ValueError` and `http.client.HTTPException`.
        """
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        connection.request(method, parts.path.rstrip("/") + path, body, self._headers)
        return connection

    def _request(
        self, method: str, path: str, body: bytes | None, timeout_s: float | None
    ) -> dict[str, Any]:
        try:
            with closing(self.send(method, path, body, timeout_s)) as connection:
                response = connection.getresponse()
                return answer(response.status, response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise GatewayMissingError(
                f"no gateway answers at {self._shown}: {error}; "
                "start one with: toolscript gateway start"
            ) from None

    @property
    def _shown(self) -> str:
        return f"{redact(self.url, ())} ({self._origin})"


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A running gateway: its record and its health."""

    record: GatewayRecord
    health: dict[str, Any] | None
    """None where it does not answer: it hangs, is suspended or is ending."""


def record_file(settings: Settings) -> GatewayFile:
    """Returns the file where the gateway of this call's configuration leaves its record.

    Does not read the configuration, so that a gateway can be found, and stopped, when that is
    broken or gone. Raises `DataDirectoryError` for another user's directory: a record says
    where to send keys.
    """
    check_owner(settings.data_dir)
    return GatewayFile(settings.data_dir, configuration.key_of(config_files(settings)))


def running_gateway(settings: Settings) -> RunningGateway | None:
    """Returns this configuration's gateway, if one runs.

    Sends nothing to the address in its record unless the lock shows that it runs: after a
    crash another program, or another user's, may listen there.
    """
    file = record_file(settings)
    record = file.read()
    if record is None or not file.is_locked():
        return None
    return RunningGateway(record, _health(record))


def recorded(record: GatewayRecord, timeout_s: float = TIMEOUT_S) -> RemoteClient:
    """Returns a client of the gateway that left this record, with its owner's key."""
    return RemoteClient(record.url, "its record", record.key, timeout_s)


def _health(record: GatewayRecord) -> dict[str, Any] | None:
    try:
        health = recorded(record, _PROBE_TIMEOUT_S).get("/health")
    except ToolscriptError:
        return None
    # It may have ended just now, and another program listen in its place.
    return health if health.get("pid") == record.pid else None


class LocalOptions(TypedDict, total=False):
    """What an application in this process is made for."""

    only: str
    """Connect to this server and to no other."""
    live: bool
    """Connect to every server."""
    embed: bool
    """Load a model, which is the default; without, tools are only listed."""
    skills: "SkillMode"
    """What to do about skills: nothing, by default."""


@contextmanager
def connected(
    flags: Mapping[str, object], *, refresh: bool = False, **local: Unpack[LocalOptions]
) -> Generator[Client]:
    """The gateway that serves this call, or else the application in this process.

    ``refresh`` connects to every server in this process instead of using the snapshot. A flag
    that the running gateway was not started with (``--model``, another ``--data-dir``) holds
    for this call, which this process then answers.
    """
    settings = settings_from(**flags)
    remote = None if refresh else _remote(settings, flags)
    if remote is not None:
        yield remote
        return
    from toolscript.surfaces.cli.local_client import local_client  # noqa: PLC0415 - imports the engine

    with local_client(settings, refresh=refresh, **local) as client:
        yield client


def gateway(flags: Mapping[str, object]) -> RemoteClient:
    """Returns the gateway that serves this call; raises `GatewayMissingError` where none runs."""
    client = _remote(settings_from(**flags), flags)
    if client is None:
        raise GatewayMissingError(
            "no gateway is running for this configuration; start one with: toolscript gateway start"
        )
    return client


def _remote(settings: Settings, flags: Mapping[str, object]) -> RemoteClient | None:
    chosen = {name for name in ("model", "data_dir", "config") if flags.get(name) is not None}
    if settings.gateway_url and not chosen:
        origin = "from TOOLSCRIPT_GATEWAY_URL"
        return RemoteClient(settings.gateway_url, origin, settings.gateway_token)
    running = running_gateway(settings)
    if running is None:
        return None
    record = running.record
    if "model" in chosen and record.model != settings.model:
        return None
    if running.health is None:
        note(f"the gateway (process {record.pid}) does not answer; this process does its work")
        return None
    _await_edit(running, settings)
    return recorded(record)


def _await_edit(running: RunningGateway, settings: Settings) -> None:
    """Wait until the gateway serves the configuration as it is now; note if it does not."""
    began = time.monotonic()
    health, edited = running.health, config_stamp(settings)
    while health is not None and health.get("configuration") != edited:
        waited = time.monotonic() - began
        if health.get("configurationProblem") and waited > _STALE_S:
            note(f"the gateway keeps its old configuration: {health['configurationProblem']}")
            return
        if waited > _EDIT_S:
            note("the configuration was edited, and the gateway does not follow; restart it")
            return
        time.sleep(_POLL_S)
        health = _health(running.record)
