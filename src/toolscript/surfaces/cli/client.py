"""How a command reaches the application: the running gateway, or one of its own.

Both answer the same requests with the same JSON, so there is one code path
behind every command.
"""

import http.client
import json
from collections.abc import Iterable
from typing import Any, Protocol, cast
from urllib.parse import urlencode, urlsplit

from toolscript.errors import GatewayError, GatewayMissingError
from toolscript.surfaces.cli.wire import named_error
from toolscript.text import redact

TIMEOUT_S = 15.0
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
"""What an answer must have to be a gateway's: any program may answer at an address."""

_JSON = {"Content-Type": "application/json"}

Parameters = Iterable[tuple[str, object]]


class Getter(Protocol):
    """Asks the application for what it knows."""

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """The JSON object at a path; an error answer is raised as the error it names."""
        ...


class Client(Getter, Protocol):
    """Asks the application for anything."""

    @property
    def snapshot(self) -> bool:
        """Whether the answers come from a snapshot rather than from connected servers."""
        ...

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """The answer to JSON that is sent to a path, however long it takes."""
        ...


def target(path: str, parameters: Parameters) -> str:
    """Path and query of a request; parameters that are None are left out."""
    given = [(name, str(value)) for name, value in parameters if value is not None]
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def answer(status: int, body: bytes) -> dict[str, Any]:
    """The object that was answered; raises the error that an error status carries."""
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
        raise named_error(str(value.get("type")), str(value.get("error")))
    return value


class RemoteClient:
    """A running gateway, asked over HTTP. Opens a connection per request."""

    snapshot = False

    def __init__(
        self, url: str, origin: str, token: str | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.url, self.token = url, token
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._origin = origin
        self._timeout_s = timeout_s

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """See `Client.get`; raises `GatewayMissingError` when nothing answers."""
        value = self._asked("GET", target(path, parameters), None, self._timeout_s)
        return self._recognised(path, value)

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """See `Client.post`."""
        return self._asked("POST", path, body, None)

    def _asked(
        self, method: str, where: str, body: bytes | None, timeout_s: float | None
    ) -> dict[str, Any]:
        try:
            parts = urlsplit(self.url)
            secure = parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
            headers = {**_JSON, **self._headers}
            connection.request(method, parts.path.rstrip("/") + where, body, headers)
            response = connection.getresponse()
            status, received = response.status, response.read()
            connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise GatewayMissingError(
                f"no gateway answers at {self._shown}: {error}; "
                "start one with: toolscript gateway start"
            ) from None
        return answer(status, received)

    @property
    def _shown(self) -> str:
        return f"{redact(self.url, ())} ({self._origin})"

    def _recognised(self, path: str, value: dict[str, Any]) -> dict[str, Any]:
        shape = _SHAPES.get(path, {})
        if all(isinstance(value.get(key), kind) for key, kind in shape.items()):
            return value
        raise GatewayError(f"{self._shown} answered something that is not toolscript's")
