"""The client of a running gateway, and the protocol that every client of the application has.

All clients answer the same requests with the same JSON, so that a command has one code path.
"""

import json
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote, urlencode

from toolscript import errors
from toolscript.errors import GatewayError, GatewayMissingError
from toolscript.surfaces.cli.http_exchange import Exchange
from toolscript.text.wire_constants import ANSWER_FIELDS

_MISTAKE = 400
"""Statuses from here on are errors."""
TIMEOUT_S = 15.0
Parameters = Iterable[tuple[str, object]]


class Client(Protocol):
    """Sends requests to the application; several threads may share one."""

    def get(self, path: str, parameters: Parameters = ()) -> dict[str, Any]:
        """Returns the JSON object at a path; raises the error that an error answer names."""
        ...

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """Sends JSON to a path and returns the answer, however long it takes."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Returns after so many seconds, or earlier if everything is ready before."""
        ...


def target(path: str, parameters: Parameters) -> str:
    """Returns path and query of a request, without parameters that are None or false."""
    stated = ((name, value) for name, value in parameters if value is not None)
    given = [(n, "true" if v is True else str(v)) for n, v in stated if v is not False]
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
    if status >= _MISTAKE or "error" in value:
        raise error_named(str(value.get("type")), str(value.get("error")))
    return value


def error_named(name: str, message: str) -> errors.ToolscriptError:
    """Returns the error that a gateway has answered; `GatewayError` for an unknown name."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.ToolscriptError):
        return kind(message)
    return errors.GatewayError(message)


class RemoteClient:
    """A running gateway, asked over HTTP.

    Args:
        url: Its address.
        origin: The source of the address, for messages.
        token: Proves that the caller may ask; None if no gateway needs one.
        project: The folder that counts as the caller's project; empty for none.
        profile: The profile whose permissions hold as well.
        certificate: The only certificate that counts, in PEM; empty for those of the system.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - where a gateway is, and who asks it
        self,
        url: str,
        origin: str,
        token: str | None = None,
        project: str = "",
        profile: str | None = None,
        certificate: str = "",
    ) -> None:
        self.url, self.token, self._certificate = url, token, certificate
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._headers |= {"Toolscript-Project": quote(project)} if project else {}
        self._headers |= {"Toolscript-Profile": quote(profile)} if profile else {}
        self._origin = origin

    def get(
        self, path: str, parameters: Parameters = (), timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """See `Client.get`; raises `GatewayMissingError` when nothing answers in time."""
        value = self._request("GET", target(path, parameters), b"", timeout_s)
        shape = ANSWER_FIELDS.get(path, {})
        if all(isinstance(value.get(key), kind) for key, kind in shape.items()):
            return value
        raise GatewayError(f"{self._source} answered something that is not toolscript's")

    def post(self, path: str, body: bytes) -> dict[str, Any]:
        """See `Client.post`."""
        return self._request("POST", path, body, None)

    def wait(self, timeout_s: float) -> None:
        """See `Client.wait`; a gateway does not tell when it is ready."""
        time.sleep(timeout_s)

    def begin(
        self,
        method: str,
        path: str,
        body: bytes | None,
        timeout_s: float | None = None,
        kind: str = "application/json",
    ) -> Exchange:
        """Sends a request; returns the exchange, whose answer is not read yet. See `Exchange`."""
        url, headers = self.url.rstrip("/") + path, {"Content-Type": kind, **self._headers}
        return Exchange(method, url, headers, body, timeout_s, self._certificate)

    def _request(
        self, method: str, path: str, body: bytes, timeout_s: float | None
    ) -> dict[str, Any]:
        try:
            with closing(self.begin(method, path, body, timeout_s)) as exchange:
                return answer(exchange.status(), exchange.read())
        except (OSError, ValueError) as error:
            raise GatewayMissingError(
                f"no gateway answers at {self._source}: {error}; "
                "start one with: toolscript gateway start"
            ) from None

    @property
    def _source(self) -> str:
        from toolscript.text.redaction import redact  # noqa: PLC0415 - only a message needs it

        return f"{redact(self.url, ())} ({self._origin})"


def working_directory() -> str:
    """Returns the folder that a command is run in; empty if that has been deleted."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""
